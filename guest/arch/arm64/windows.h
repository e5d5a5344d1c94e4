/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * arm64: the windows, one set for each entry instruction, and where the program starts.
 * What stands between the two marks is spelled out, so its length is known.
 */
#ifndef KENTRY_WINDOWS_H
#define KENTRY_WINDOWS_H

#include "arch.h"
#include "window.h"

/*
 * Every window is there three times: between marks; bare, for one that has more in it; and skipped,
 * where a jump in place of the begin mark leaves out all that stands between the marks.
 */
#define SKIP_BEGIN "b 1f\n\t"
#define SKIP_END "1:\n\t" MARK_ASM(MARK_END)

/* One window of one call: user side 1 instruction, the svc. */
/* clang-format off */
#define WINDOW_ONE(name, begin, end)								\
	static void name(struct work *w)							\
	{											\
		register long x8 __asm__("x8") = w->first.nr;					\
		register long x0 __asm__("x0") = w->first.args[0];				\
		register long x1 __asm__("x1") = w->first.args[1];				\
		register long x2 __asm__("x2") = w->first.args[2];				\
		register long x3 __asm__("x3") = w->first.args[3];				\
												\
		__asm__ volatile(begin "svc #0\n\t" end						\
			: "+r"(x0)								\
			: "r"(x8), "r"(x1), "r"(x2), "r"(x3)					\
			: "memory", "cc");							\
		w->first.ret = x0;								\
	}
/* clang-format on */
WINDOW_ONE(window_one, MARK_ASM(MARK_BEGIN), MARK_ASM(MARK_END))
WINDOW_ONE(bare_one, "", "")
WINDOW_ONE(skipped_one, SKIP_BEGIN, SKIP_END)

/*
 * One window of two calls.  User side: svc, then one move for each of the second
 * call's three arguments and its number, svc.  `chain` leaves the first call's
 * result in place as the second's first argument (openat, close): one move less.
 */
/* clang-format off */
#define WINDOW_TWO(name, begin, move_first, end)						\
	static void name(struct work *w)							\
	{											\
		register long x8 __asm__("x8") = w->first.nr;					\
		register long x0 __asm__("x0") = w->first.args[0];				\
		register long x1 __asm__("x1") = w->first.args[1];				\
		register long x2 __asm__("x2") = w->first.args[2];				\
		register long x3 __asm__("x3") = w->first.args[3];				\
		register long x9 __asm__("x9") = w->second.args[0];				\
		register long x10 __asm__("x10") = w->second.args[1];				\
		register long x11 __asm__("x11") = w->second.args[2];				\
		register long x12 __asm__("x12") = w->second.nr;				\
		long first;									\
												\
		__asm__ volatile(								\
			begin									\
			"svc #0\n\t"								\
			"mov %[first], x0\n\t"							\
			move_first								\
			"mov x1, x10\n\t"							\
			"mov x2, x11\n\t"							\
			"mov x8, x12\n\t"							\
			"svc #0\n\t"								\
			end									\
			: "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x8), [first] "=&r"(first)		\
			: "r"(x3), "r"(x9), "r"(x10), "r"(x11), "r"(x12)			\
			: "memory", "cc");							\
		w->first.ret = first;								\
		w->second.ret = x0;								\
	}
/* clang-format on */
WINDOW_TWO(window_two, MARK_ASM(MARK_BEGIN), "mov x0, x9\n\t", MARK_ASM(MARK_END))
WINDOW_TWO(window_chain, MARK_ASM(MARK_BEGIN), "", MARK_ASM(MARK_END))
WINDOW_TWO(bare_two, "", "mov x0, x9\n\t", "")
WINDOW_TWO(bare_chain, "", "", "")
WINDOW_TWO(skipped_two, SKIP_BEGIN, "", SKIP_END)

static const struct entry entries[] = {
	{ .name = "svc",
	  .bodies = { [SHAPE_ONE] = { window_one, bare_one, skipped_one, 1 },
		      [SHAPE_TWO] = { window_two, bare_two, skipped_two, 7 },
		      [SHAPE_CHAIN] = { window_chain, bare_chain, skipped_two, 6 } } },
};

/* The kernel hands over a stack with argc at the top; the probe goes on with its own. */
__asm__(".globl _start\n"
	"_start:\n\t"
	"mov x29, #0\n\t"
	"mov x30, #0\n\t"
	"mov x0, sp\n\t"
	"adrp x1, probe_stack + " STR(PROBE_STACK) "\n\t"
						   "mov sp, x1\n\t"
						   "bl probe_start\n\t"
						   "brk #0\n");

#endif
