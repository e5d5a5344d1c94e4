/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"
#include "rseq.h"

#define PR_RSEQ_SLICE_EXTENSION 79
#define PR_RSEQ_SLICE_EXTENSION_SET 2
#define PR_RSEQ_SLICE_EXT_ENABLE 1

static long setup(struct work *w)
{
	long err = register_rseq();

	(void)w;
	if (!err)
		err = SYS(prctl, PR_RSEQ_SLICE_EXTENSION, PR_RSEQ_SLICE_EXTENSION_SET,
			  PR_RSEQ_SLICE_EXT_ENABLE, 0);
	return err ? err : start_preempting();
}

/* The result is 1 where the call has ended an extension (Documentation/userspace-api/rseq.rst). */
static void run(struct work *w)
{
	await_preemption();
	rseq_area.slice_requested = 1;
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	while (!rseq_area.slice_granted && !is_preempted)
		;
	w->first.ret = SYS(rseq_slice_yield, 0, 0, 0, 0);
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
	w->second.ret = is_preempted;
}

CASE_PART("work", preempt_slice, "preempt-slice",
	  "the same of one that asks for an extension of its slice, gets it, and yields",
	  .settles = 1, .needs = "slice extensions of rseq", .changes = CHANGES_TASK,
	  .interrupts = 1, .want_first = 1, .want_second = 1, .realtime = 1, .setup = setup,
	  .run = run, .finish = stop_preempting);
