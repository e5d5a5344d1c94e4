/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static char path[] FOR_KERNEL = "/dev/null";

CASE(openat_close, "openat+close", "openat of /dev/null for reading, then close",
     .shape = SHAPE_CHAIN, .first = CALL(openat, AT_FDCWD, (long)path, O_RDONLY),
     .second = CALL(close), .want_first = ANY_RESULT, .want_second = 0);
