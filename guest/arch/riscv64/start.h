/* SPDX-License-Identifier: GPL-2.0-or-later */
/* riscv64: where a program of this folder starts. */
#ifndef KENTRY_START_H
#define KENTRY_START_H

#include "macros.h"
#include "window.h"

/* The kernel hands over a stack with argc at the top; the program goes on with its own. */
__asm__(".globl _start\n"
	"_start:\n\t"
	".option push\n\t"
	".option norelax\n\t"
	"la gp, __global_pointer$\n\t"
	".option pop\n\t"
	"li ra, 0\n\t"
	"mv a0, sp\n\t"
	"la sp, probe_stack + " STR(PROBE_STACK) "\n\t"
						 "call probe_start\n\t"
						 "ebreak\n");

#endif
