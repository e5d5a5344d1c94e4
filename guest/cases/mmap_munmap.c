/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static void run(struct work *w)
{
	w->first.ret = map_pages(PAGE_BYTES);
	w->second.ret = SYS(munmap, w->first.ret, PAGE_BYTES, 0, 0);
}

CASE_OF("memory", mmap_munmap, "mmap+munmap", "mmap of an anonymous page, then munmap",
	.settles = 1, .shape = SHAPE_OWN, .want_first = ANY_RESULT, .want_second = 0, .run = run);
