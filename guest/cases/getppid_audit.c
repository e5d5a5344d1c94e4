/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "audit.h"
#include "case.h"

static long setup(struct work *w)
{
	(void)w;
	return begin_audit(0);
}

CASE_OF("entry", getppid_audit, "getppid-audit", "getppid with auditing enabled, without rules",
	.needs = "auditing of system calls", .changes = CHANGES_FORKED, .first = CALL(getppid),
	.want_first = ANY_RESULT, .setup = setup);
