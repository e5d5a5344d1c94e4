/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

/* Kernel instructions appear here only where the clock source is not readable from user space. */
CASE_NATIVE(clock_gettime_vdso, "clock_gettime@vdso",
	    "clock_gettime(CLOCK_MONOTONIC) through the vDSO", .shape = SHAPE_VDSO,
	    .first = CALL(clock_gettime, CLOCK_MONOTONIC, (long)buffer), .want_first = 0);
