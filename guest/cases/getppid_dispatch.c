/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#define SYSCALL_DISPATCH_FILTER_ALLOW 0

static char selector FOR_KERNEL = SYSCALL_DISPATCH_FILTER_ALLOW;

/* No part of the program is outside: each call looks at the selector. */
static long setup(struct work *w)
{
	(void)w;
	return syscall_raw(NR_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0,
			   (long)&selector, 0);
}

CASE_OF("work", getppid_dispatch, "getppid-dispatch",
	"getppid under syscall user dispatch, whose selector allows it",
	.needs = "syscall user dispatch", .changes = CHANGES_TASK, .first = CALL(getppid),
	.want_first = ANY_RESULT, .setup = setup);
