/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static long setup(struct work *w)
{
	long fd = SYS(eventfd2, 0, 0, 0, 0);

	w->first.args[0] = w->second.args[0] = fd;
	*(long *)w->first.args[1] = 1;
	return fd < 0 ? fd : 0;
}

CASE_OF("events", eventfd, "eventfd", "write of 1 to an eventfd, then read of it",
	.shape = SHAPE_TWO, .first = CALL(write, 0, (long)buffer, 8),
	.second = CALL(read, 0, (long)buffer, 8), .want_first = 8, .want_second = 8,
	.setup = setup);
