# SPDX-License-Identifier: GPL-2.0-or-later
"""For every test: how long something takes is never what is tested."""

from hypothesis import HealthCheck, settings

settings.register_profile("kentry", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kentry")
