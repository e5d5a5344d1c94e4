/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static long setup(struct work *w)
{
	return open_for_first(w, "/dev/zero", O_RDONLY);
}

CASE(fstat, "fstat", "fstat of an open /dev/zero", .first = CALL(fstat, 0, (long)buffer),
     .want_first = 0, .setup = setup);
