/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#ifdef ARCH_TAG_CHECKS
#define PR_SET_TAGGED_ADDR_CTRL 55
#define PR_TAGGED_ADDR_ENABLE 1
#define PR_MTE_TCF_ASYNC 4
#define EVERY_TAG_BUT_0 (0xfffe << 3)

static long setup(struct work *w)
{
	(void)w;
	return SYS(prctl, PR_SET_TAGGED_ADDR_CTRL,
		   PR_TAGGED_ADDR_ENABLE | PR_MTE_TCF_ASYNC | EVERY_TAG_BUT_0, 0, 0);
}

CASE_OF("mte", getppid_mte, "getppid-mte",
	"getppid of a task with asynchronous checks of memory tags", .needs = "MTE",
	.changes = CHANGES_TASK, .first = CALL(getppid), .want_first = ANY_RESULT, .setup = setup);
#endif
