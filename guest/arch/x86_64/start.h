/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86_64: where a program of this folder starts. */
#ifndef KENTRY_START_H
#define KENTRY_START_H

#include "macros.h"
#include "window.h"

/* The kernel hands over a stack with argc at the top; the program goes on with its own. */
__asm__(".globl _start\n"
	"_start:\n\t"
	"xor %ebp, %ebp\n\t"
	"mov %rsp, %rdi\n\t"
	"mov $probe_stack + " STR(PROBE_STACK) ", %esp\n\t"
					       "call probe_start\n\t"
					       "ud2\n");

#endif
