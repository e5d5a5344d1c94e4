// SPDX-License-Identifier: GPL-2.0-only
/* A case of your own: kentry record SPEC --case-file examples/case-file/sysinfo.c */
#include "case.h"

/* Its number on arm64 and riscv64, on x86-64, and in i386's table. */
#define NR_sysinfo NR_OF(sysinfo, 179, 99, 116)
#define NR32_sysinfo 116

CASE(sysinfo, "sysinfo", "sysinfo into a buffer", .first = CALL(sysinfo, (long)buffer),
     .want_first = 0);
