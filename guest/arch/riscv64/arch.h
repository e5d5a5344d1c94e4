/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * riscv64 system calls: number in a7, arguments in a0-a5, entered by "ecall",
 * result in a0; every other register is preserved by the kernel.
 */
#ifndef KENTRY_ARCH_H
#define KENTRY_ARCH_H

#include "macros.h"
#include "marks.h"

#define ARCH_NAME "riscv64"
#define NR_OF(name, generic, x86, i386) generic

#define MARK_ASM(n) "lui x0, (" STR(MARK_RISCV64_BASE_ASM) " + " STR(n) ")\n\t"
#define MARK_RISCV64_BASE_ASM 0xABC00

#define SETTLE_ASM "fclass.d t0, ft0\n\t"
#define SETTLE_CLOBBERS "t0"

#define ARCH_ELF_MACHINE 243
#define ARCH_EXIT "li a0, 0\n\tli a7, 93\n\tecall\n\t"

static inline long syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long a7 __asm__("a7") = nr;
	register long a0 __asm__("a0") = a;
	register long a1 __asm__("a1") = b;
	register long a2 __asm__("a2") = c;
	register long a3 __asm__("a3") = d;
	register long a4 __asm__("a4") = e;
	register long a5 __asm__("a5") = f;

	__asm__ volatile("ecall"
			 : "+r"(a0)
			 : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
			 : "memory");
	return a0;
}

/* The same with two arguments, and with the stack's end at `stack` meanwhile. */
static inline long syscall_on(char *stack, long nr, long a, long b)
{
	register long a7 __asm__("a7") = nr;
	register long a0 __asm__("a0") = a;
	register long a1 __asm__("a1") = b;

	__asm__ volatile("mv t0, sp\n\t"
			 "mv sp, %[stack]\n\t"
			 "ecall\n\t"
			 "mv sp, t0"
			 : "+r"(a0)
			 : "r"(a7), "r"(a1), [stack] "r"(stack)
			 : "t0", "memory");
	return a0;
}

/* clone3: the new task calls run() on its own stack, then exits. */
static inline long clone3_call(long nr, const void *arguments, long size, void (*run)(void))
{
	register long a7 __asm__("a7") = nr;
	register long a0 __asm__("a0") = (long)arguments;
	register long a1 __asm__("a1") = size;

	__asm__ volatile("ecall\n\t"
			 "bnez a0, 1f\n\t"
			 "jalr %[run]\n\t" ARCH_EXIT "1:"
			 : "+r"(a0)
			 : "r"(a7), "r"(a1), [run] "r"(run)
			 : "memory");
	return a0;
}

/* It counts in all modes, and runs only for an event of the kernel's. */
#define ARCH_PERF_COUNTER "instret"
#define ARCH_PERF_FLAGS 0

/* prctl(PR_SET_SHADOW_STACK_STATUS, PR_SHADOW_STACK_ENABLE): Zicfiss, Linux 7.0. */
static inline long enable_shadow_stack(void)
{
	return syscall6(167, 75, 1, 0, 0, 0, 0);
}

#endif
