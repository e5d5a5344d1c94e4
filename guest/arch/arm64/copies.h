/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * arm64: the kernel's copies of SVE state, as user space can run them
 * (arch/arm64/include/asm/fpsimdmacros.h: sve_save, sve_load, sve_flush_z, sve_flush_p_ffr).
 */
#ifndef KENTRY_COPIES_H
#define KENTRY_COPIES_H

#include "vector.h"

/* Of registers in pairs, as fpsimd_save and fpsimd_restore have them. */
#define PAIR(op, first, second, offset) op " q" #first ", q" #second ", [%0, #" #offset "]\n\t"
/* clang-format off */
#define ALL_PAIRS(op)								\
	PAIR(op, 0, 1, 0) PAIR(op, 2, 3, 32) PAIR(op, 4, 5, 64)			\
	PAIR(op, 6, 7, 96) PAIR(op, 8, 9, 128) PAIR(op, 10, 11, 160)		\
	PAIR(op, 12, 13, 192) PAIR(op, 14, 15, 224) PAIR(op, 16, 17, 256)	\
	PAIR(op, 18, 19, 288) PAIR(op, 20, 21, 320) PAIR(op, 22, 23, 352)	\
	PAIR(op, 24, 25, 384) PAIR(op, 26, 27, 416) PAIR(op, 28, 29, 448)	\
	PAIR(op, 30, 31, 480)
/* clang-format on */

static __attribute__((noinline)) void copies_restore(char *state)
{
	char *predicates;

	__asm__ volatile(".arch_extension sve\n\t"
			 "addvl %0, %1, #31\n\t"
			 "addvl %0, %0, #1\n\t"
			 ".irp reg, " ALL_Z "\n\t"
			 "ldr z\\reg, [%1, #\\reg, mul vl]\n\t"
			 ".endr\n\t"
			 "ldr p0, [%0, #16, mul vl]\n\t"
			 "wrffr p0.b\n\t"
			 ".irp reg, " ALL_P "\n\t"
			 "ldr p\\reg, [%0, #\\reg, mul vl]\n\t"
			 ".endr\n\t"
			 : "=&r"(predicates)
			 : "r"(state)
			 : "memory");
}

static __attribute__((noinline)) void copies_small_save(char *state)
{
	__asm__ volatile(".arch_extension fp\n\t" ALL_PAIRS("stp")::"r"(state) : "memory");
}

static __attribute__((noinline)) void copies_small_restore(char *state)
{
	__asm__ volatile(".arch_extension fp\n\t" ALL_PAIRS("ldp")::"r"(state) : "memory");
}

/* What keeping SVE on at an FPSIMD-only load adds: sve_flush_p of the posted series. */
static __attribute__((noinline)) void copies_flush_p(char *state)
{
	(void)state;
	__asm__ volatile(".arch_extension sve\n\t"
			 ".irp reg, " ALL_P "\n\t"
			 "pfalse p\\reg\\().b\n\t"
			 ".endr\n\t"
			 "wrffr p0.b\n\t" ::
				 : "memory");
}

/* clang-format off */
#define COPIES											\
	{ "copy-save", ONCE, time_copies, 1, copies_save },					\
	{ "copy-restore", ONCE, time_copies, 1, copies_restore },				\
	{ "copy-small_save", ONCE, time_copies, 1, copies_small_save },			\
	{ "copy-small_restore", ONCE, time_copies, 1, copies_small_restore },			\
	{ "copy-kept_load", ONCE, time_copies, 1, copies_flush_p }
/* clang-format on */

#endif
