/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static long setup(struct work *w)
{
	int ends[2];
	long err = SYS(pipe2, ends, 0, 0, 0);

	w->first.args[0] = ends[1];
	w->second.args[0] = ends[0];
	return err;
}

CASE(pipe, "pipe", "write of 1 byte into a pipe, then read of it, in one task", .shape = SHAPE_TWO,
     .first = CALL(write, 0, (long)buffer, 1), .second = CALL(read, 0, (long)buffer, 1),
     .want_first = 1, .want_second = 1, .setup = setup);
