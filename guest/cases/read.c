/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static long setup(struct work *w)
{
	return open_for_first(w, "/dev/zero", O_RDONLY);
}

CASE(read, "read", "read of 1 byte from /dev/zero", .first = CALL(read, 0, (long)buffer, 1),
     .want_first = 1, .setup = setup);
