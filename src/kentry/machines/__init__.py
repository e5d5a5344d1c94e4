# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel -> raw output, on this machine, behind ssh, on boards, under KVM."""
