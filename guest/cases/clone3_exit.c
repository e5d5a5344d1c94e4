/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static void nothing(void)
{
}

static long setup(struct work *w)
{
	(void)w;
	set_policy(SCHED_FIFO);
	return 0;
}

static void run(struct work *w)
{
	w->first.ret = start_task(THREAD, nothing);
	join_thread();
}

static void finish(struct work *w)
{
	(void)w;
	set_policy(SCHED_OTHER);
}

CASE_OF("process", clone3_exit, "clone3+exit",
	"a thread that exits at once: clone3, exit, and futex to wait for it", .settles = 1,
	.shape = SHAPE_OWN, .want_first = ANY_RESULT, .want_second = 0, .realtime = 1,
	.setup = setup, .run = run, .finish = finish);
