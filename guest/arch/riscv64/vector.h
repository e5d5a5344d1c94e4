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

static const struct unit units[] = {
	{ "vec", has_v, use_v, v_bits, 0 },
};

#endif
