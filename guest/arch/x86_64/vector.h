/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86_64: AVX2.  The kernel traps no use of it; CPUID and XGETBV: Intel SDM, volume 1, 14.3. */
#ifndef KENTRY_VECTOR_H
#define KENTRY_VECTOR_H

#include "unit.h"

#define LEAF1_ECX_OSXSAVE (1u << 27)
#define LEAF7_EBX_AVX2 (1u << 5)
#define XCR0_SSE_AVX 6u

struct cpuid {
	unsigned int eax, ebx, ecx, edx;
};

static struct cpuid cpuid(unsigned int leaf)
{
	struct cpuid c = { .eax = leaf };

	__asm__ volatile("cpuid" : "+a"(c.eax), "=b"(c.ebx), "+c"(c.ecx), "=d"(c.edx));
	return c;
}

static int has_avx2(const unsigned long *auxv)
{
	unsigned int low, high;

	(void)auxv;
	if (cpuid(0).eax < 7 || !(cpuid(1).ecx & LEAF1_ECX_OSXSAVE) ||
	    !(cpuid(7).ebx & LEAF7_EBX_AVX2))
		return 0;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (low & XCR0_SSE_AVX) == XCR0_SSE_AVX;
}

/* All ones, in the upper half too, which is not SSE's. */
static __attribute__((noinline)) void use_avx2(void)
{
	__asm__ volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0" ::: "memory");
}

static long avx2_bits(void)
{
	return 256;
}

#define ALL_YMM "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15"

static __attribute__((noinline)) void fill_avx2(void)
{
	__asm__ volatile(".irp reg, " ALL_YMM "\n\t"
			 "mov $(\\reg + 1), %%eax\n\t"
			 "vmovd %%eax, %%xmm\\reg\n\t"
			 "vpbroadcastb %%xmm\\reg, %%ymm\\reg\n\t"
			 ".endr\n\t" ::
				 : "eax", "memory");
}

static __attribute__((noinline)) void save_avx2(char *state)
{
	__asm__ volatile(".irp reg, " ALL_YMM "\n\t"
			 "vmovdqu %%ymm\\reg, 32*\\reg(%0)\n\t"
			 ".endr\n\t" ::"r"(state)
			 : "memory");
}

/* A system call changes none of them (System V ABI, AMD64 supplement, A.2.1). */
static const struct unit units[] = {
	{ "vec",
	  has_avx2,
	  use_avx2,
	  avx2_bits,
	  0,
	  fill_avx2,
	  save_avx2,
	  { { "ymm", 16, 1, 0, 32, 0, 1 } } },
};

#endif
