/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

/* More than what a page table maps. */
#define FAR (4l << 20)

/*
 * The heap is at a random place above the program.  Where both have a page table in common, the
 * second call frees none: so the break is moved away, and nothing stays mapped below it.
 */
static void move_away(void)
{
	static int is_away;
	long end = SYS(brk, 0, 0, 0, 0);

	if (is_away || SYS(brk, end + FAR, 0, 0, 0) != end + FAR)
		return;
	SYS(munmap, end, FAR, 0, 0);
	is_away = 1;
}

/* brk() has no errors: what cannot be had leaves the break as it was. */
static long setup(struct work *w)
{
	long end, more;
	int grows;

	move_away();
	end = SYS(brk, 0, 0, 0, 0);
	more = end + PAGE_BYTES;
	grows = SYS(brk, more, 0, 0, 0) == more;
	SYS(brk, end, 0, 0, 0);
	w->first.args[0] = more;
	w->second.args[0] = end;
	return grows ? 0 : -ENOMEM;
}

CASE_OF("memory", brk, "brk", "brk a page up, then down", .settles = 1, .shape = SHAPE_TWO,
	.first = CALL(brk), .second = CALL(brk), .want_first = ANY_RESULT,
	.want_second = ANY_RESULT, .setup = setup);
