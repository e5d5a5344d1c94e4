/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE_OF("events", futex_wake, "futex-wake", "futex(FUTEX_WAKE_PRIVATE) where nobody waits",
	.first = CALL(futex, (long)buffer, FUTEX_WAKE | FUTEX_PRIVATE, 1), .want_first = 0);
