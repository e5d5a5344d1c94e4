/* SPDX-License-Identifier: GPL-2.0-or-later */
/* arm64: the windows, a set for each entry instruction, by window_asm.h. */
#ifndef KENTRY_WINDOWS_H
#define KENTRY_WINDOWS_H

#include "window_asm.h"

#define JUMP "b"
#define MOVE(to, from) "mov " to ", " from "\n\t"

#define ENTER_svc "svc #0\n\t"
#define NUMBER_svc "x8"
#define ARG0_svc "x0"
#define ARG1_svc "x1"
#define ARG2_svc "x2"
#define ARG3_svc "x3"
#define NUMBER_NEXT_svc "x12"
#define ARG0_NEXT_svc "x9"
#define ARG1_NEXT_svc "x10"
#define ARG2_NEXT_svc "x11"
#define KEPT_svc "x13"
#define RESULT_svc "x0"
#define RESULT_TYPE_svc long
#define RESULT_OF_svc arg0
#define CHAIN_svc ""
#define CLOBBERS_svc "memory", "cc"

WINDOWS(svc)

static const struct entry entries[] = {
	{ .name = "svc", .bodies = BODIES(svc) },
};

#endif
