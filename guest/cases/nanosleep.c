/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static const long no_time[2];

/*
 * The scheduler's estimate of the task's load halves in each 32 ms that the task sleeps (PELT,
 * kernel/sched/pelt.c).  It is near 0 before the first window, whatever ran before, and rises.
 */
static long setup(struct work *w)
{
	(void)w;
	sleep_for(300000000);
	return 0;
}

/*
 * It sleeps until the timer's interrupt, 50 us later (PR_SET_TIMERSLACK in prctl(2)).  Compilers
 * unroll the idle task's loop, so that it goes through it in two ways, in turns: the sleep before
 * the window makes the window's always the same.
 */
static void run(struct work *w)
{
	w->first.ret = SYS(nanosleep, no_time, 0, 0, 0);
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	w->second.ret = SYS(nanosleep, no_time, 0, 0, 0);
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
}

CASE_PART("events", nanosleep, "nanosleep",
	  "nanosleep of 0 s: the task sleeps until the timer's interrupt", .interrupts = 1,
	  .want_first = 0, .want_second = 0, .setup = setup, .run = run);
