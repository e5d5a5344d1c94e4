/* SPDX-License-Identifier: GPL-2.0-or-later */
/* arm64: where a program of this folder starts. */
#ifndef KENTRY_START_H
#define KENTRY_START_H

#include "macros.h"
#include "window.h"

/* The kernel hands over a stack with argc at the top; the program goes on with its own. */
__asm__(".globl _start\n"
	"_start:\n\t"
	"mov x29, #0\n\t"
	"mov x30, #0\n\t"
	"mov x0, sp\n\t"
	"adrp x1, probe_stack + " STR(PROBE_STACK) "\n\t"
						   "mov sp, x1\n\t"
						   "bl probe_start\n\t"
						   "brk #0\n");

#endif
