/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x86-64: XSAVEC and XRSTOR, which user space may run; the kernel's XSAVES writes the same
 * (Intel SDM, volume 1, 13.7 to 13.11).  AMX's tiles, bits 17 and 18 of XCR0, stay out: a
 * program that may not use them must not name them.
 */
#ifndef KENTRY_COPIES_H
#define KENTRY_COPIES_H

/* x87, SSE, AVX, and AVX-512's three. */
#define STATE_COMPONENTS "$0xe7"

static __attribute__((noinline)) void copies_save(char *state)
{
	__asm__ volatile("mov " STATE_COMPONENTS ", %%eax\n\t"
			 "xor %%edx, %%edx\n\t"
			 "xsavec (%0)\n\t" ::"r"(state)
			 : "eax", "edx", "memory");
}

static __attribute__((noinline)) void copies_restore(char *state)
{
	__asm__ volatile("mov " STATE_COMPONENTS ", %%eax\n\t"
			 "xor %%edx, %%edx\n\t"
			 "xrstor (%0)\n\t" ::"r"(state)
			 : "eax", "edx", "memory");
}

/* clang-format off */
#define COPIES								\
	{ "copy-save", ONCE, time_copies, 1, copies_save },		\
	{ "copy-restore", ONCE, time_copies, 1, copies_restore }
/* clang-format on */

#endif
