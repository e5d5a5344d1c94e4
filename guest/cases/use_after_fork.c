/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"
#include "unit.h"

/* Has the kernel taken the unit away from a task for having forked?  Then the use traps. */
static void run(struct work *w)
{
	void (*use)(void) = w->state->unit->use;

	use();
	w->first.ret = fork_child();
	if (w->first.ret == 0)
		exit_child(0);
	/* Writing to `w` has taken the fault of the stack's page, which the two now share. */
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	use();
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
	w->second.ret = wait_child(w->first.ret);
}

CASE_STATES(use_after_fork, "use-after-fork", "each",
	    "a use of the vector unit by a task that used it, then forked", .shape = SHAPE_MARKED,
	    .want_first = ANY_RESULT, .want_second = 0, .run = run);
