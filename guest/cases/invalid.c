/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE(invalid, "invalid", "a number no kernel knows: entry and exit with no handler",
     .first = CALL(invalid), .want_first = -ENOSYS);
