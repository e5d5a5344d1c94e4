/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE(getpid, "getpid", "the caller's process number", .first = CALL(getpid),
     .want_first = ANY_RESULT);
