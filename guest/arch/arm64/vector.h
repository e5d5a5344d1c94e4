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

static const struct unit units[] = {
	{ "vec", has_sve, use_sve, sve_bits, set_sve_bits },
	{ "ssve", has_sme, use_streaming_mode, sme_bits, set_sme_bits },
	{ "za", has_sme, use_za, sme_bits, set_sme_bits },
};

#endif
