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

CASE_VECTOR(pipe_4k, "pipe-4k", "write of 4096 bytes into a pipe, then read of them, in one task",
	    .shape = SHAPE_TWO, .first = CALL(write, 0, (long)pages, 4096),
	    .second = CALL(read, 0, (long)pages, 4096), .want_first = 4096, .want_second = 4096,
	    .setup = setup);
