/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static long setup(struct work *w)
{
	long page = map_pages(PAGE_BYTES);

	w->first.args[0] = w->second.args[0] = page;
	if (page < 0)
		return page;
	*(volatile char *)page = 1;
	return 0;
}

static void finish(struct work *w)
{
	SYS(munmap, w->first.args[0], PAGE_BYTES, 0, 0);
}

CASE_OF("memory", mprotect, "mprotect", "mprotect of a page to read-only, then back",
	.shape = SHAPE_TWO, .first = CALL(mprotect, 0, PAGE_BYTES, PROT_READ),
	.second = CALL(mprotect, 0, PAGE_BYTES, PROT_READ_WRITE), .want_first = 0, .want_second = 0,
	.setup = setup, .finish = finish);
