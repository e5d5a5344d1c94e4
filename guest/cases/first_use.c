/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"
#include "unit.h"

/* The child has never used the unit, nor has its parent. */
static void run(struct work *w)
{
	void (*use)(void) = w->state->unit->use;

	w->first.ret = fork_child();
	if (w->first.ret == 0) {
		__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
		use();
		__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
		exit_child(0);
	}
	w->second.ret = wait_child(w->first.ret);
}

CASE_STATES(first_use, "first-use", "each", "the first use of the vector unit by a forked child",
	    .shape = SHAPE_MARKED, .want_first = ANY_RESULT, .want_second = 0, .run = run);
