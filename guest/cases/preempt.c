/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"
#include "rseq.h"

static long setup(struct work *w)
{
	(void)w;
	return start_preempting();
}

CASE_PART("work", preempt, "preempt",
	  "a timer interrupts the task in user mode, and another one runs: two switches",
	  .settles = 1, .changes = CHANGES_TASK, .interrupts = 1, .want_first = 0, .want_second = 0,
	  .realtime = 1, .setup = setup, .run = wait_preempted, .finish = stop_preempting);
