/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"
#include "rseq.h"

static long setup(struct work *w)
{
	long err = register_rseq();

	(void)w;
	return err ? err : start_preempting();
}

CASE_PART("work", preempt_rseq, "preempt-rseq", "the same of a task that has registered rseq",
	  .settles = 1, .changes = CHANGES_TASK, .interrupts = 1, .want_first = 0, .want_second = 0,
	  .realtime = 1, .setup = setup, .run = wait_preempted, .finish = stop_preempting);
