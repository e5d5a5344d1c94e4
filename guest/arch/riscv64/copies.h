/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * riscv64: the kernel's copies of V state, as user space can run them
 * (arch/riscv/include/asm/vector.h: __riscv_v_vstate_save, __riscv_v_vstate_restore).
 */
#ifndef KENTRY_COPIES_H
#define KENTRY_COPIES_H

#include "vector.h"

static __attribute__((noinline)) void copies_restore(char *state)
{
	long length;

	__asm__ volatile(".option push\n\t"
			 ".option arch, +v\n\t"
			 "vsetvli %0, x0, e8, m8, ta, ma\n\t"
			 "vle8.v v0, (%1)\n\t"
			 "add %1, %1, %0\n\t"
			 "vle8.v v8, (%1)\n\t"
			 "add %1, %1, %0\n\t"
			 "vle8.v v16, (%1)\n\t"
			 "add %1, %1, %0\n\t"
			 "vle8.v v24, (%1)\n\t"
			 ".option pop\n\t"
			 : "=&r"(length), "+r"(state)
			 :
			 : "memory");
}

/* clang-format off */
#define COPIES								\
	{ "copy-save", ONCE, time_copies, 1, copies_save },		\
	{ "copy-restore", ONCE, time_copies, 1, copies_restore }
/* clang-format on */

#endif
