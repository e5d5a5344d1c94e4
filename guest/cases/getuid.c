/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE(getuid, "getuid", "the caller's user number", .first = CALL(getuid), .want_first = ANY_RESULT);
