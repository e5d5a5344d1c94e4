/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x86-64 system calls: number in rax, arguments in rdi rsi rdx r10 r8 r9,
 * entered by "syscall", result in rax; rcx and r11 are clobbered.
 * "int $0x80" takes i386 numbers, arguments in ebx ecx edx esi edi ebp; pointers
 * must lie below 4 GiB, which is why the probe is linked at a fixed low address.
 */
#ifndef KENTRY_ARCH_H
#define KENTRY_ARCH_H

#include "macros.h"
#include "marks.h"

#define ARCH_NAME "x86_64"
#define ARCH_COMPAT_ENTRY "int80"
#define NR_OF(name, generic, x86, i386) x86

#define MARK_ASM(n) ".byte 0x0f, 0x1f, 0x84, 0x00, " STR(n) ", 0xbc, 0xab, 0x5a\n\t"

#define SETTLE_ASM "mov $1, %%eax\n\txor %%edx, %%edx\n\tmov $1, %%ecx\n\tdiv %%ecx\n\t"
#define SETTLE_CLOBBERS "rax", "rcx", "rdx", "cc"

/* Only here does a signal handler need the program's help to return. */
#define ARCH_SA_RESTORER 0x04000000
#define ARCH_SIGNAL_RETURN "mov $15, %eax\n\tsyscall\n" /* rt_sigreturn */

#define ARCH_ELF_MACHINE 62
#define ARCH_EXIT "xor %%edi, %%edi\n\tmov $60, %%eax\n\tsyscall\n\t"

/* time() of the page that 64-bit programs of old called (Documentation/arch/x86/x86_64/mm.rst). */
#define ARCH_VSYSCALL_TIME 0xffffffffff600400ul

static inline long syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long rax = nr;

	__asm__ volatile("syscall"
			 : "+a"(rax)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory", "cc");
	return rax;
}

/* The same with two arguments, and with the stack's end at `stack` meanwhile. */
static inline long syscall_on(char *stack, long nr, long a, long b)
{
	long rax = nr;

	__asm__ volatile("mov %%rsp, %%rbx\n\t"
			 "mov %[stack], %%rsp\n\t"
			 "syscall\n\t"
			 "mov %%rbx, %%rsp"
			 : "+a"(rax)
			 : "D"(a), "S"(b), [stack] "r"(stack)
			 : "rbx", "rcx", "r11", "memory", "cc");
	return rax;
}

/* clone3: the new task calls run() on its own stack, then exits. */
static inline long clone3_call(long nr, const void *arguments, long size, void (*run)(void))
{
	long rax = nr;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "call *%[run]\n\t" ARCH_EXIT "1:"
			 : "+a"(rax)
			 : "D"(arguments), "S"(size), [run] "r"(run)
			 : "rcx", "r11", "memory", "cc");
	return rax;
}

/* Under -icount QEMU counts instructions, one for each repetition of a REP, and gives that as time. */
#define ARCH_COUNTER "icount"
static inline long read_arch_counter(void)
{
	unsigned int low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (long)((unsigned long)high << 32 | low);
}

/* arch_prctl(ARCH_SHSTK_ENABLE, ARCH_SHSTK_SHSTK), Linux 6.6. */
static inline long enable_shadow_stack(void)
{
	return syscall6(158, 0x5001, 1, 0, 0, 0, 0);
}

#endif
