/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE(sched_yield, "sched_yield", "sched_yield with nothing else to run", .first = CALL(sched_yield),
     .want_first = 0);
