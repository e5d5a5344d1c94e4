/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static void run(struct work *w)
{
	w->first.ret = fork_child();
	if (w->first.ret == 0)
		exit_child(0);
	w->second.ret = wait_child(w->first.ret);
}

CASE_VECTOR(fork_exit, "fork+exit", "a child that exits at once: clone, exit, wait4", .settles = 1,
	    .shape = SHAPE_OWN, .want_first = ANY_RESULT, .want_second = 0, .run = run);
