/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE(gettid, "gettid", "the caller's thread number", .first = CALL(gettid),
     .want_first = ANY_RESULT);
