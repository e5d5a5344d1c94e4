/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"
#include "rseq.h"

static long setup(struct work *w)
{
	(void)w;
	return register_rseq();
}

CASE_OF("work", getppid_rseq, "getppid-rseq",
	"getppid of a task that has registered rseq, as every program of glibc 2.35 or later has",
	.changes = CHANGES_TASK, .first = CALL(getppid), .want_first = ANY_RESULT, .setup = setup);
