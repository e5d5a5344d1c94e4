/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * arm64 system calls: number in x8, arguments in x0-x5, entered by "svc #0",
 * result in x0; every other register is preserved by the kernel.
 */
#ifndef KENTRY_ARCH_H
#define KENTRY_ARCH_H

#include "macros.h"
#include "marks.h"

#define ARCH_NAME "arm64"
#define NR_OF(name, generic, x86, i386) generic

#define MARK_ASM(n) "movz xzr, #(" STR(MARK_ARM64_BASE_ASM) " + " STR(n) ")\n\t"
#define MARK_ARM64_BASE_ASM 0xAB00

#define SETTLE_ASM "udiv x9, x9, x9\n\t"
#define SETTLE_CLOBBERS "x9"

#define ARCH_ELF_MACHINE 183
#define ARCH_EXIT "mov x0, #0\n\tmov x8, #93\n\tsvc #0\n\t"

static inline long syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory", "cc");
	return x0;
}

/* The same with two arguments, and with the stack's end at `stack` meanwhile. */
static inline long syscall_on(char *stack, long nr, long a, long b)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;

	__asm__ volatile("mov x9, sp\n\t"
			 "mov sp, %[stack]\n\t"
			 "svc #0\n\t"
			 "mov sp, x9"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), [stack] "r"(stack)
			 : "x9", "memory", "cc");
	return x0;
}

/* clone3: the new task calls run() on its own stack, then exits. */
static inline long clone3_call(long nr, const void *arguments, long size, void (*run)(void))
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = (long)arguments;
	register long x1 __asm__("x1") = size;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "blr %[run]\n\t" ARCH_EXIT "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), [run] "r"(run)
			 : "memory", "cc");
	return x0;
}

/* The PMU; EXCLUDE_USER: it counts the kernel's instructions. */
#define ARCH_PERF_COUNTER "pmu"
#define ARCH_PERF_FLAGS EXCLUDE_USER

/* MTE (Documentation/arch/arm64/memory-tagging-extension.rst). */
#define ARCH_TAG_CHECKS

/* prctl(PR_SET_SHADOW_STACK_STATUS, PR_SHADOW_STACK_ENABLE): GCS, Linux 6.13. */
static inline long enable_shadow_stack(void)
{
	return syscall6(167, 75, 1, 0, 0, 0, 0);
}

#endif
