/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "audit.h"
#include "case.h"

static long setup(struct work *w)
{
	(void)w;
	return begin_audit(100);
}

CASE_OF("work", getppid_audit_100, "getppid-audit-100", "getppid with 100 audit rules for openat",
	.needs = "auditing of system calls", .changes = CHANGES_FORKED, .first = CALL(getppid),
	.want_first = ANY_RESULT, .setup = setup, .finish = end_audit);
