/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static long setup(struct work *w)
{
	return open_for_first(w, "/dev/null", O_WRONLY);
}

CASE(write, "write", "write of 1 byte to /dev/null", .first = CALL(write, 0, (long)buffer, 1),
     .want_first = 1, .setup = setup);
