/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * arm64: SVE, and of SME streaming mode and ZA (Documentation/arch/arm64/sve.rst and sme.rst).
 * The kernel traps a task's first use of SVE and of SME; whether later ones trap is its policy.
 */
#ifndef KENTRY_VECTOR_H
#define KENTRY_VECTOR_H

#include "system.h"
#include "unit.h"

#define HWCAP_SVE (1ul << 22)
#define HWCAP2_SME (1ul << 23)
#define PR_SVE_SET_VL 50
#define PR_SME_SET_VL 63
#define PR_VL_LEN_MASK 0xffff /* bytes; flags are above */

#define ALL_Z                                                                                    \
	"0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, " \
	"24, 25, 26, 27, 28, 29, 30, 31"
#define ALL_P "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15"

static int has_sve(const unsigned long *auxv)
{
	return (auxv_value(auxv, AT_HWCAP) & HWCAP_SVE) != 0;
}

static int has_sme(const unsigned long *auxv)
{
	return (auxv_value(auxv, AT_HWCAP2) & HWCAP2_SME) != 0;
}

static __attribute__((noinline)) void use_sve(void)
{
	__asm__ volatile(".arch_extension sve\n\t"
			 "ptrue p0.b\n\t"
			 "mov z0.b, #1\n\t" ::
				 : "memory");
}

/* A program leaves streaming mode when it is done, and well before its next system call. */
static __attribute__((noinline)) void use_streaming_mode(void)
{
	__asm__ volatile(".arch_extension sme\n\t"
			 "smstart sm\n\t"
			 "ptrue p0.b\n\t"
			 "mov z0.b, #1\n\t"
			 "smstop sm\n\t" ::
				 : "memory");
}

/* ZA stays on: it is the state that lives across system calls. */
static __attribute__((noinline)) void use_za(void)
{
	__asm__ volatile(".arch_extension sme\n\t"
			 "smstart za\n\t"
			 "zero {za}\n\t" ::
				 : "memory");
}

static __attribute__((noinline)) void fill_sve(void)
{
	__asm__ volatile(".arch_extension sve\n\t"
			 ".irp reg, " ALL_Z "\n\t"
			 "mov z\\reg\\().b, #(\\reg + 1)\n\t"
			 ".endr\n\t"
			 ".irp reg, " ALL_P "\n\t"
			 "ptrue p\\reg\\().b\n\t"
			 ".endr\n\t"
			 "setffr\n\t" ::
				 : "memory");
}

/* Z, then P with as many bits as Z has bytes, then FFR. */
static __attribute__((noinline)) void copies_save(char *state)
{
	char *predicates;

	__asm__ volatile(".arch_extension sve\n\t"
			 "addvl %0, %1, #31\n\t"
			 "addvl %0, %0, #1\n\t"
			 ".irp reg, " ALL_Z "\n\t"
			 "str z\\reg, [%1, #\\reg, mul vl]\n\t"
			 ".endr\n\t"
			 ".irp reg, " ALL_P "\n\t"
			 "str p\\reg, [%0, #\\reg, mul vl]\n\t"
			 ".endr\n\t"
			 "rdffr p0.b\n\t"
			 "str p0, [%0, #16, mul vl]\n\t"
			 "ldr p0, [%0]\n\t"
			 : "=&r"(predicates)
			 : "r"(state)
			 : "memory");
}

/* Streaming mode stays on: the next system call leaves it. */
static __attribute__((noinline)) void fill_streaming_mode(void)
{
	__asm__ volatile(".arch_extension sme\n\t"
			 "smstart sm\n\t"
			 ".irp reg, " ALL_Z "\n\t"
			 "mov z\\reg\\().b, #(\\reg + 1)\n\t"
			 ".endr\n\t" ::
				 : "memory");
}

/* Of PSTATE: SM, ZA. */
#define SVCR_ZA 2
static char svcr(void)
{
	long value;

	__asm__ volatile("mrs %0, s3_3_c4_c2_2" : "=r"(value));
	return (char)value;
}

static void save_streaming_mode(char *state)
{
	*state = svcr();
}

/* Row by row; only streaming mode writes ZA from other registers. */
static __attribute__((noinline)) void fill_za(void)
{
	long row, rows;

	__asm__ volatile(".arch_extension sme\n\t"
			 "smstart\n\t"
			 "rdsvl %1, #1\n\t"
			 "ptrue p0.b\n\t"
			 "mov w12, #0\n\t"
			 "1: add %w0, w12, #1\n\t"
			 "mov z0.b, %w0\n\t"
			 "mova za0h.b[w12, #0], p0/m, z0.b\n\t"
			 "mov w12, %w0\n\t"
			 "cmp %0, %1\n\t"
			 "b.ne 1b\n\t"
			 "smstop sm\n\t"
			 : "=&r"(row), "=&r"(rows)
			 :
			 : "x12", "cc", "memory");
}

static __attribute__((noinline)) void save_za(char *state)
{
	long bytes;

	if (!(svcr() & SVCR_ZA))
		return;
	__asm__ volatile(".arch_extension sme\n\t"
			 "rdsvl %0, #1\n\t"
			 "mov w12, #0\n\t"
			 "1: str za[w12, #0], [%1]\n\t"
			 "add %1, %1, %0\n\t"
			 "add w12, w12, #1\n\t"
			 "cmp x12, %0\n\t"
			 "b.ne 1b\n\t"
			 : "=&r"(bytes), "+r"(state)
			 :
			 : "x12", "cc", "memory");
}

static long sve_bits(void)
{
	long bytes;

	__asm__ volatile(".arch_extension sve\n\t"
			 "rdvl %0, #1\n\t"
			 : "=r"(bytes));
	return bytes * 8;
}

static long sme_bits(void)
{
	long bytes;

	__asm__ volatile(".arch_extension sme\n\t"
			 "rdsvl %0, #1\n\t"
			 : "=r"(bytes));
	return bytes * 8;
}

/* The kernel takes the longest there is that is not longer. */
static long set_bits(long option, long bits)
{
	long got = SYS(prctl, option, bits / 8, 0, 0);

	return got < 0 ? got : (got & PR_VL_LEN_MASK) * 8;
}

static long set_sve_bits(long bits)
{
	return set_bits(PR_SVE_SET_VL, bits);
}

static long set_sme_bits(long bits)
{
	return set_bits(PR_SME_SET_VL, bits);
}

/* Documentation/arch/arm64/sve.rst, 3; sme.rst, 3: ZA is kept, and streaming mode is left. */
static const struct unit units[] = {
	{ "vec",
	  has_sve,
	  use_sve,
	  sve_bits,
	  set_sve_bits,
	  fill_sve,
	  copies_save,
	  { { "z", 32, 1, 0, 16, 0, 1 },
	    { "p", 16, 8, 0xff, 0, 0, 1 },
	    { "ffr", 1, 8, 0xff, 0, 0, 0 } } },
	{ "ssve",
	  has_sme,
	  use_streaming_mode,
	  sme_bits,
	  set_sme_bits,
	  fill_streaming_mode,
	  save_streaming_mode,
	  { { "svcr", 1, 0, 0, 0, 0, 0 } } },
	{ "za",
	  has_sme,
	  use_za,
	  sme_bits,
	  set_sme_bits,
	  fill_za,
	  save_za,
	  { { "za", 0, 1, 0, 256, 0, 256 } } },
};

#endif
