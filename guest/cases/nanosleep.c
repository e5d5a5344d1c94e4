/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

/*
 * Of 0 s, the interrupt comes before the task sleeps: a realtime task gets none of the 50 us that
 * the kernel adds for others (PR_SET_TIMERSLACK in prctl(2)).  In a longer sleep than 20 us there
 * would be more of the kernel's ticks.
 */
static long time[2] FOR_KERNEL = { 0, 20000 };

/*
 * As a realtime task: of others the scheduler estimates the load (PELT, kernel/sched/pelt.c), and
 * whether the estimate has changed since the task woke depends on what ran before.
 */
static long setup(struct work *w)
{
	(void)w;
	return set_policy(SCHED_FIFO);
}

/*
 * Compilers unroll the idle task's loop, so that it goes through it in two ways, in turns: the
 * sleep before the window makes the window's the same more often.
 */
static void run(struct work *w)
{
	w->first.ret = SYS(nanosleep, time, 0, 0, 0);
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	w->second.ret = SYS(nanosleep, time, 0, 0, 0);
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
}

static void finish(struct work *w)
{
	(void)w;
	set_policy(SCHED_OTHER);
}

CASE_PART("events", nanosleep, "nanosleep",
	  "nanosleep of 20 us: the task sleeps until the timer's interrupt", .interrupts = 1,
	  .want_first = 0, .want_second = 0, .realtime = 1, .setup = setup, .run = run,
	  .finish = finish);
