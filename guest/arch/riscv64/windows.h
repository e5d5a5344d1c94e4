/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * riscv64: the windows, one set for each entry instruction, and where the program starts.
 * What stands between the two marks is spelled out, so its length is known.
 */
#ifndef KENTRY_WINDOWS_H
#define KENTRY_WINDOWS_H

#include "arch.h"
#include "window.h"

/* Every window is there marked, bare and skipped, as on arm64. */
#define SKIP_BEGIN "j 1f\n\t"
#define SKIP_END "1:\n\t" MARK_ASM(MARK_END)

/* One window of one call: user side 1 instruction, the ecall. */
/* clang-format off */
#define WINDOW_ONE(name, begin, end)								\
	static void name(struct work *w)							\
	{											\
		register long a7 __asm__("a7") = w->first.nr;					\
		register long a0 __asm__("a0") = w->first.args[0];				\
		register long a1 __asm__("a1") = w->first.args[1];				\
		register long a2 __asm__("a2") = w->first.args[2];				\
		register long a3 __asm__("a3") = w->first.args[3];				\
												\
		__asm__ volatile(begin "ecall\n\t" end						\
			: "+r"(a0)								\
			: "r"(a7), "r"(a1), "r"(a2), "r"(a3)					\
			: "memory");								\
		w->first.ret = a0;								\
	}
/* clang-format on */
WINDOW_ONE(window_one, MARK_ASM(MARK_BEGIN), MARK_ASM(MARK_END))
WINDOW_ONE(bare_one, "", "")
WINDOW_ONE(skipped_one, SKIP_BEGIN, SKIP_END)

/* Two calls, as on arm64: ecall, keep the result, the moves, ecall. */
/* clang-format off */
#define WINDOW_TWO(name, begin, move_first, end)						\
	static void name(struct work *w)							\
	{											\
		register long a7 __asm__("a7") = w->first.nr;					\
		register long a0 __asm__("a0") = w->first.args[0];				\
		register long a1 __asm__("a1") = w->first.args[1];				\
		register long a2 __asm__("a2") = w->first.args[2];				\
		register long a3 __asm__("a3") = w->first.args[3];				\
		register long t0 __asm__("t0") = w->second.args[0];				\
		register long t1 __asm__("t1") = w->second.args[1];				\
		register long t2 __asm__("t2") = w->second.args[2];				\
		register long t3 __asm__("t3") = w->second.nr;					\
		long first;									\
												\
		__asm__ volatile(								\
			begin									\
			"ecall\n\t"								\
			"mv %[first], a0\n\t"							\
			move_first								\
			"mv a1, t1\n\t"								\
			"mv a2, t2\n\t"								\
			"mv a7, t3\n\t"								\
			"ecall\n\t"								\
			end									\
			: "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a7), [first] "=&r"(first)		\
			: "r"(a3), "r"(t0), "r"(t1), "r"(t2), "r"(t3)				\
			: "memory");								\
		w->first.ret = first;								\
		w->second.ret = a0;								\
	}
/* clang-format on */
WINDOW_TWO(window_two, MARK_ASM(MARK_BEGIN), "mv a0, t0\n\t", MARK_ASM(MARK_END))
WINDOW_TWO(window_chain, MARK_ASM(MARK_BEGIN), "", MARK_ASM(MARK_END))
WINDOW_TWO(bare_two, "", "mv a0, t0\n\t", "")
WINDOW_TWO(bare_chain, "", "", "")
WINDOW_TWO(skipped_two, SKIP_BEGIN, "", SKIP_END)

static const struct entry entries[] = {
	{ .name = "ecall",
	  .bodies = { [SHAPE_ONE] = { window_one, bare_one, skipped_one, 1 },
		      [SHAPE_TWO] = { window_two, bare_two, skipped_two, 7 },
		      [SHAPE_CHAIN] = { window_chain, bare_chain, skipped_two, 6 } } },
};

/* The kernel hands over a stack with argc at the top; the probe goes on with its own. */
__asm__(".globl _start\n"
	"_start:\n\t"
	".option push\n\t"
	".option norelax\n\t"
	"la gp, __global_pointer$\n\t"
	".option pop\n\t"
	"li ra, 0\n\t"
	"mv a0, sp\n\t"
	"la sp, probe_stack + " STR(PROBE_STACK) "\n\t"
						 "call probe_start\n\t"
						 "ebreak\n");

#endif
