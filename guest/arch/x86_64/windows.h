/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86_64: the windows, a set for each entry instruction, by window_asm.h. */
#ifndef KENTRY_WINDOWS_H
#define KENTRY_WINDOWS_H

#include "window_asm.h"

#define JUMP "jmp"
#define MOVE(to, from) "mov %%" from ", %%" to "\n\t"

#define ENTER_syscall "syscall\n\t"
#define NUMBER_syscall "rax"
#define ARG0_syscall "rdi"
#define ARG1_syscall "rsi"
#define ARG2_syscall "rdx"
#define ARG3_syscall "r10"
#define NUMBER_NEXT_syscall "r15"
#define ARG0_NEXT_syscall "r12"
#define ARG1_NEXT_syscall "r13"
#define ARG2_NEXT_syscall "r14"
#define KEPT_syscall "r8"
#define RESULT_syscall "rax"
#define RESULT_TYPE_syscall long
#define RESULT_OF_syscall number
/* rax is not the first argument's register, so a chain needs its move too. */
#define CHAIN_syscall MOVE("rdi", "rax")
#define CLOBBERS_syscall "rcx", "r11", "memory", "cc"

/* Kernels before 6.7 clear r8-r11 on int $0x80, so nothing is kept there. */
#define ENTER_int80 "int $0x80\n\t"
#define NUMBER_int80 "rax"
#define ARG0_int80 "rbx"
#define ARG1_int80 "rcx"
#define ARG2_int80 "rdx"
#define ARG3_int80 "rsi"
#define NUMBER_NEXT_int80 "r15"
#define ARG0_NEXT_int80 "r12"
#define ARG1_NEXT_int80 "r13"
#define ARG2_NEXT_int80 "r14"
#define KEPT_int80 "rdi"
#define RESULT_int80 "rax"
#define RESULT_TYPE_int80 int
#define RESULT_OF_int80 number
#define CHAIN_int80 MOVE("rbx", "rax")
#define CLOBBERS_int80 "r8", "r9", "r10", "r11", "memory", "cc"

WINDOWS(syscall)
WINDOWS_NOT_BARE(int80)

static const struct entry entries[] = {
	{ .name = "syscall", .bodies = BODIES(syscall) },
	{ .name = "int80", .compat = 1, .bodies = BODIES_NOT_BARE(int80) },
};

#endif
