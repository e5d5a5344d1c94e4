/* SPDX-License-Identifier: GPL-2.0 */
/* The vector state of a task, and system calls without a library between. */

#ifndef VECTOR_H
#define VECTOR_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"

#define MAX_VLENB 256
#define VILL (1UL << 63)

/* The first five as in the kernel's struct __riscv_v_regset_state. */
struct vector {
	unsigned long vstart, vl, vtype, vcsr, vlenb;
	unsigned char v[32 * MAX_VLENB];
};

#define V_OPTION ".option push\n\t.option arch, +v\n\t"

static inline unsigned long v_lenb(void)
{
	unsigned long vlenb;

	asm volatile("csrr %0, 0xc22" : "=r"(vlenb));
	return vlenb;
}

/* Puts `state` into the registers; its vlenb is not looked at. */
static inline void v_load(const struct vector *state)
{
	unsigned long eight = 8 * v_lenb();

	asm volatile(V_OPTION "csrw	0x008, x0\n\t"
			      "vl8re8.v	v0, (%0)\n\t"
			      "vl8re8.v	v8, (%1)\n\t"
			      "vl8re8.v	v16, (%2)\n\t"
			      "vl8re8.v	v24, (%3)\n\t"
			      "vsetvl	x0, %4, %5\n\t"
			      "csrw	0x00f, %6\n\t"
			      "csrw	0x008, %7\n\t"
			      ".option pop"
		     :
		     : "r"(state->v), "r"(state->v + eight), "r"(state->v + 2 * eight),
		       "r"(state->v + 3 * eight), "r"(state->vl), "r"(state->vtype),
		       "r"(state->vcsr), "r"(state->vstart)
		     : "memory");
}

/* Whole-register stores: right whatever vl and vtype are. */
static inline void v_store(struct vector *state)
{
	unsigned long eight = 8 * v_lenb();

	asm volatile("csrr %0, 0x008\n\tcsrr %1, 0xc20\n\tcsrr %2, 0xc21\n\tcsrr %3, 0x00f"
		     : "=r"(state->vstart), "=r"(state->vl), "=r"(state->vtype), "=r"(state->vcsr));
	state->vlenb = eight / 8;
	if (state->vstart)
		asm volatile("csrw 0x008, x0");
	asm volatile(V_OPTION "vs8r.v	v0, (%0)\n\t"
			      "vs8r.v	v8, (%1)\n\t"
			      "vs8r.v	v16, (%2)\n\t"
			      "vs8r.v	v24, (%3)\n\t"
			      ".option pop"
		     :
		     : "r"(state->v), "r"(state->v + eight), "r"(state->v + 2 * eight),
		       "r"(state->v + 3 * eight)
		     : "memory");
}

/* A state that is another one for every seed: e32, m2, ta, ma, three elements. */
static inline void v_make(struct vector *state, unsigned int seed)
{
	memset(state, 0, sizeof(*state));
	state->vl = 3;
	state->vtype = 0xd1;
	state->vcsr = seed & 7;
	state->vlenb = v_lenb();
	for (unsigned int i = 0; i < 32 * state->vlenb; i++)
		state->v[i] = (unsigned char)((i * 7 + seed * 31) ^ i >> 8) & 0x7f;
}

/* What a system call leaves. */
static inline void v_make_discarded(struct vector *state, unsigned long vcsr)
{
	memset(state, 0, sizeof(*state));
	state->vtype = VILL;
	state->vcsr = vcsr;
	state->vlenb = v_lenb();
	memset(state->v, 0xff, 32 * state->vlenb);
}

static inline bool v_same(const struct vector *one, const struct vector *other)
{
	return one->vstart == other->vstart && one->vl == other->vl && one->vtype == other->vtype &&
	       one->vcsr == other->vcsr && one->vlenb == other->vlenb &&
	       !memcmp(one->v, other->v, 32 * one->vlenb);
}

/* Says what differs, for the log. */
static inline bool v_check(const struct vector *got, const struct vector *wanted)
{
	if (v_same(got, wanted))
		return true;
	ksft_print_msg("got: vstart %lu vl %lu vtype %lx vcsr %lx vlenb %lu\n", got->vstart,
		       got->vl, got->vtype, got->vcsr, got->vlenb);
	ksft_print_msg("not: vstart %lu vl %lu vtype %lx vcsr %lx vlenb %lu\n", wanted->vstart,
		       wanted->vl, wanted->vtype, wanted->vcsr, wanted->vlenb);
	for (unsigned int i = 0; i < 32 * wanted->vlenb; i++)
		if (got->v[i] != wanted->v[i]) {
			ksft_print_msg("first in byte %u of v%lu: %02x not %02x\n",
				       i % (unsigned int)wanted->vlenb, i / wanted->vlenb,
				       got->v[i], wanted->v[i]);
			break;
		}
	return false;
}

static inline bool v_is(const struct vector *wanted)
{
	struct vector got;

	v_store(&got);
	return v_check(&got, wanted);
}

static inline bool v_is_discarded(unsigned long vcsr)
{
	struct vector got, wanted;

	v_store(&got);
	v_make_discarded(&wanted, vcsr);
	return v_check(&got, &wanted);
}

static inline long sys3(long number, long a, long b, long c)
{
	register long a0 asm("a0") = a;
	register long a1 asm("a1") = b;
	register long a2 asm("a2") = c;
	register long a7 asm("a7") = number;

	asm volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
	return a0;
}

static inline long sys0(long number)
{
	return sys3(number, 0, 0, 0);
}

/* Instructions without a system call: two a round. */
static inline void spin(unsigned long rounds)
{
	asm volatile("1: addi %0, %0, -1\n\tbnez %0, 1b" : "+r"(rounds));
}

/* What a child's end says. */
static inline bool child_passed(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

#endif
