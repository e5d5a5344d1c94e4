/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

enum { TO_SLEEP, TO_ANSWER, TO_END };

static volatile int word FOR_KERNEL;

static long wake(int value)
{
	word = value;
	return SYS(futex, &word, FUTEX_WAKE | FUTEX_PRIVATE, 1, 0);
}

static long wait_while(int value)
{
	long err = 0;

	while (word == value)
		err = SYS(futex, &word, FUTEX_WAIT | FUTEX_PRIVATE, value, 0);
	return err;
}

static void answer(void)
{
	for (wait_while(TO_SLEEP); word != TO_END; wait_while(TO_SLEEP))
		wake(TO_SLEEP);
}

static void run(struct work *w)
{
	w->first.ret = wake(TO_ANSWER);
	w->second.ret = wait_while(TO_ANSWER);
}

static long setup(struct work *w)
{
	long number;

	set_policy(SCHED_FIFO);
	word = TO_SLEEP;
	number = start_task(THREAD, answer);
	if (number < 0) {
		set_policy(SCHED_OTHER);
		return number;
	}
	/* From then on it is asleep before each window. */
	run(w);
	return 0;
}

static void finish(struct work *w)
{
	(void)w;
	wake(TO_END);
	join_thread();
	set_policy(SCHED_OTHER);
}

CASE_OF("events", futex, "futex",
	"futex wakes a thread and waits, and the thread does the same: two switches", .settles = 1,
	.shape = SHAPE_OWN, .want_first = ANY_RESULT, .want_second = 0, .realtime = 1,
	.setup = setup, .run = run, .finish = finish);
