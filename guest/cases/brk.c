/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

/* brk() has no errors: what cannot be had leaves the break as it was. */
static long setup(struct work *w)
{
	long end = SYS(brk, 0, 0, 0, 0), more = end + PAGE_BYTES;
	int grows = SYS(brk, more, 0, 0, 0) == more;

	SYS(brk, end, 0, 0, 0);
	w->first.args[0] = more;
	w->second.args[0] = end;
	return grows ? 0 : -ENOMEM;
}

CASE_OF("memory", brk, "brk", "brk a page up, then down", .settles = 1, .shape = SHAPE_TWO,
	.first = CALL(brk), .second = CALL(brk), .want_first = ANY_RESULT,
	.want_second = ANY_RESULT, .setup = setup);
