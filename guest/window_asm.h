/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How windows are spelled out, the same on every architecture.  What stands between the two marks
 * is one assembler text, so its length is known.
 *
 * An architecture's windows.h says of each entry instruction, by the names of its registers: where
 * the number and the arguments are, where those of a second call wait (NEXT), where the first
 * result is KEPT, and where a RESULT is found.  CHAIN is what makes the first result the second
 * call's first argument.
 */
#ifndef KENTRY_WINDOW_ASM_H
#define KENTRY_WINDOW_ASM_H

#include "arch.h"
#include "window.h"

/*
 * Every window is there three times: between marks; bare, for one that has more in it; and skipped,
 * where a jump in place of the begin mark leaves out all that stands between the marks.
 */
#define BEGIN MARK_ASM(MARK_BEGIN)
#define END MARK_ASM(MARK_END)
#define SKIP_BEGIN JUMP " 1f\n\t"
#define SKIP_END "1:\n\t" END

/* One call: the user side is 1 instruction, the one that enters. */
/* clang-format off */
#define WINDOW_ONE(entry, name, begin, end)							\
	static void name(struct work *w)							\
	{											\
		register long number __asm__(NUMBER_##entry) = w->first.nr;			\
		register long arg0 __asm__(ARG0_##entry) = w->first.args[0];			\
		register long arg1 __asm__(ARG1_##entry) = w->first.args[1];			\
		register long arg2 __asm__(ARG2_##entry) = w->first.args[2];			\
		register long arg3 __asm__(ARG3_##entry) = w->first.args[3];			\
												\
		__asm__ volatile(begin ENTER_##entry end					\
			: "+r"(number), "+r"(arg0)						\
			: "r"(arg1), "r"(arg2), "r"(arg3)					\
			: CLOBBERS_##entry);							\
		w->first.ret = (RESULT_TYPE_##entry)RESULT_OF_##entry;				\
	}

/*
 * Two calls.  The user side: enter, keep the result, one move for each of the second call's three
 * arguments and its number, enter.
 */
#define WINDOW_TWO(entry, name, begin, move_first, end)						\
	static void name(struct work *w)							\
	{											\
		register long number __asm__(NUMBER_##entry) = w->first.nr;			\
		register long arg0 __asm__(ARG0_##entry) = w->first.args[0];			\
		register long arg1 __asm__(ARG1_##entry) = w->first.args[1];			\
		register long arg2 __asm__(ARG2_##entry) = w->first.args[2];			\
		register long arg3 __asm__(ARG3_##entry) = w->first.args[3];			\
		register long number_next __asm__(NUMBER_NEXT_##entry) = w->second.nr;		\
		register long arg0_next __asm__(ARG0_NEXT_##entry) = w->second.args[0];		\
		register long arg1_next __asm__(ARG1_NEXT_##entry) = w->second.args[1];		\
		register long arg2_next __asm__(ARG2_NEXT_##entry) = w->second.args[2];		\
		register long kept __asm__(KEPT_##entry);					\
												\
		__asm__ volatile(								\
			begin									\
			ENTER_##entry								\
			MOVE(KEPT_##entry, RESULT_##entry)					\
			move_first								\
			MOVE(ARG1_##entry, ARG1_NEXT_##entry)					\
			MOVE(ARG2_##entry, ARG2_NEXT_##entry)					\
			MOVE(NUMBER_##entry, NUMBER_NEXT_##entry)				\
			ENTER_##entry								\
			end									\
			: "+r"(number), "+r"(arg0), "+r"(arg1), "+r"(arg2), "=&r"(kept)		\
			: "r"(arg3), "r"(number_next), "r"(arg0_next), "r"(arg1_next),		\
			  "r"(arg2_next)							\
			: CLOBBERS_##entry);							\
		w->first.ret = (RESULT_TYPE_##entry)kept;					\
		w->second.ret = (RESULT_TYPE_##entry)RESULT_OF_##entry;				\
	}
/* clang-format on */

#define WINDOWS(entry)                                                                     \
	WINDOW_ONE(entry, one_##entry, BEGIN, END)                                         \
	WINDOW_ONE(entry, bare_one_##entry, "", "")                                        \
	WINDOW_ONE(entry, skip_one_##entry, SKIP_BEGIN, SKIP_END)                          \
	WINDOW_TWO(entry, two_##entry, BEGIN, MOVE(ARG0_##entry, ARG0_NEXT_##entry), END)  \
	WINDOW_TWO(entry, chain_##entry, BEGIN, CHAIN_##entry, END)                        \
	WINDOW_TWO(entry, bare_two_##entry, "", MOVE(ARG0_##entry, ARG0_NEXT_##entry), "") \
	WINDOW_TWO(entry, bare_chain_##entry, "", CHAIN_##entry, "")                       \
	WINDOW_TWO(entry, skip_two_##entry, SKIP_BEGIN, "", SKIP_END)

/* Of an entry by which no window has a use of a vector unit in it. */
#define WINDOWS_NOT_BARE(entry)                                                           \
	WINDOW_ONE(entry, one_##entry, BEGIN, END)                                        \
	WINDOW_ONE(entry, skip_one_##entry, SKIP_BEGIN, SKIP_END)                         \
	WINDOW_TWO(entry, two_##entry, BEGIN, MOVE(ARG0_##entry, ARG0_NEXT_##entry), END) \
	WINDOW_TWO(entry, chain_##entry, BEGIN, CHAIN_##entry, END)                       \
	WINDOW_TWO(entry, skip_two_##entry, SKIP_BEGIN, "", SKIP_END)

/* A chain is a move shorter where its CHAIN is none. */
#define BODIES_OF(entry, bare_one, bare_two, bare_chain)                       \
	{                                                                      \
		[SHAPE_ONE] = { one_##entry, bare_one, skip_one_##entry, 1 },  \
		[SHAPE_TWO] = { two_##entry, bare_two, skip_two_##entry, 7 },  \
		[SHAPE_CHAIN] = { chain_##entry, bare_chain, skip_two_##entry, \
				  6 + (sizeof(CHAIN_##entry) > 1) },           \
	}
#define BODIES(entry) BODIES_OF(entry, bare_one_##entry, bare_two_##entry, bare_chain_##entry)
#define BODIES_NOT_BARE(entry) BODIES_OF(entry, 0, 0, 0)

#endif
