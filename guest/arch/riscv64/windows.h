/* SPDX-License-Identifier: GPL-2.0-or-later */
/* riscv64: the windows, a set for each entry instruction, by window_asm.h. */
#ifndef KENTRY_WINDOWS_H
#define KENTRY_WINDOWS_H

#include "window_asm.h"

#define JUMP "j"
#define MOVE(to, from) "mv " to ", " from "\n\t"

#define ENTER_ecall "ecall\n\t"
#define NUMBER_ecall "a7"
#define ARG0_ecall "a0"
#define ARG1_ecall "a1"
#define ARG2_ecall "a2"
#define ARG3_ecall "a3"
#define NUMBER_NEXT_ecall "t3"
#define ARG0_NEXT_ecall "t0"
#define ARG1_NEXT_ecall "t1"
#define ARG2_NEXT_ecall "t2"
#define KEPT_ecall "t4"
#define RESULT_ecall "a0"
#define RESULT_TYPE_ecall long
#define RESULT_OF_ecall arg0
#define CHAIN_ecall ""
#define CLOBBERS_ecall "memory"

WINDOWS(ecall)

static const struct entry entries[] = {
	{ .name = "ecall", .bodies = BODIES(ecall) },
};

#endif
