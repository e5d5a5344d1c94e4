/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE(clock_gettime, "clock_gettime", "clock_gettime(CLOCK_MONOTONIC) as a system call",
     .first = CALL(clock_gettime, CLOCK_MONOTONIC, (long)buffer), .want_first = 0);
