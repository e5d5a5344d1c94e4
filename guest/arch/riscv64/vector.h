/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * riscv64: V.  The kernel traps the first use of a task, and that one only
 * (Documentation/arch/riscv/vector.rst).
 */
#ifndef KENTRY_VECTOR_H
#define KENTRY_VECTOR_H

#include "system.h"
#include "unit.h"

#define HWCAP_V (1ul << ('V' - 'A'))

static int has_v(const unsigned long *auxv)
{
	return (auxv_value(auxv, AT_HWCAP) & HWCAP_V) != 0;
}

/* The use in Olof Johansson's loop, linux-riscv, 2026-05-21. */
static __attribute__((noinline, aligned(64))) void use_v(void)
{
	__asm__ volatile(".option push\n\t"
			 ".option arch, +v\n\t"
			 "vsetivli x0, 1, e32, m1, ta, ma\n\t"
			 "vmv.v.i v0, 1\n\t"
			 ".option pop\n\t" ::
				 : "memory");
}

static long v_bits(void)
{
	long bytes;

	__asm__ volatile(".option push\n\t"
			 ".option arch, +v\n\t"
			 "csrr %0, vlenb\n\t"
			 ".option pop\n\t"
			 : "=r"(bytes));
	return bytes * 8;
}

static __attribute__((noinline)) void fill_v(void)
{
	__asm__ volatile(".option push\n\t"
			 ".option arch, +v\n\t"
			 "vsetvli t0, x0, e8, m1, ta, ma\n\t"
			 ".irp reg, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, "
			 "18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n\t"
			 "li t0, \\reg + 1\n\t"
			 "vmv.v.x v\\reg, t0\n\t"
			 ".endr\n\t"
			 ".option pop\n\t" ::
				 : "t0", "memory");
}

static __attribute__((noinline)) void copies_save(char *state)
{
	long length;

	__asm__ volatile(".option push\n\t"
			 ".option arch, +v\n\t"
			 "vsetvli %0, x0, e8, m8, ta, ma\n\t"
			 "vse8.v v0, (%1)\n\t"
			 "add %1, %1, %0\n\t"
			 "vse8.v v8, (%1)\n\t"
			 "add %1, %1, %0\n\t"
			 "vse8.v v16, (%1)\n\t"
			 "add %1, %1, %0\n\t"
			 "vse8.v v24, (%1)\n\t"
			 ".option pop\n\t"
			 : "=&r"(length), "+r"(state)
			 :
			 : "memory");
}

/*
 * A system call "clobbers" them (Documentation/arch/riscv/vector.rst): it writes all ones, and a
 * switch in it restores what the first use found, zeros (riscv_v_vstate_discard() in
 * arch/riscv/include/asm/vector.h, 6.5 to 7.x).
 */
static const struct unit units[] = {
	{ "vec", has_v, use_v, v_bits, 0, fill_v, copies_save, { { "v", 32, 1, 0, 0, 0xff, 1 } } },
};

#endif
