/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

/* PID 1 has no parent, so the answer is 0 there. */
CASE(getppid, "getppid", "the parent's process number: lmbench's null call", .first = CALL(getppid),
     .want_first = ANY_RESULT);
