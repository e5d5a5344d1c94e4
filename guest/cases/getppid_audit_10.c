/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "audit.h"
#include "case.h"

static long setup(struct work *w)
{
	(void)w;
	return begin_audit(10);
}

CASE_OF("work", getppid_audit_10, "getppid-audit-10", "getppid with 10 audit rules for openat",
	.needs = "auditing of system calls", .changes = CHANGES_FORKED, .first = CALL(getppid),
	.want_first = ANY_RESULT, .setup = setup, .finish = end_audit);
