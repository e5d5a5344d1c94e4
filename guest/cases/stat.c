/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static char path[] FOR_KERNEL = "/dev/null";

/* newfstatat on every architecture: arm64 and riscv64 have no stat of their own. */
CASE(stat, "stat", "stat of /dev/null by path (newfstatat)",
     .first = CALL(newfstatat, AT_FDCWD, (long)path, (long)buffer, 0), .want_first = 0);
