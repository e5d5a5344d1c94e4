/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define TCGETS 0x5401
#define O_NOCTTY 0400

static long setup(struct work *w)
{
	if (open_for_first(w, "/dev/console", O_RDWR | O_NOCTTY) == 0 &&
	    SYS(ioctl, w->first.args[0], TCGETS, buffer, 0) == 0)
		return 0;
	/* Where this process may not use the console. */
	return open_for_first(w, "/dev/ptmx", O_RDWR | O_NOCTTY);
}

CASE_OF("io", ioctl, "ioctl", "ioctl(TCGETS) of a terminal, as isatty() does",
	.needs = "terminal that can be opened", .first = CALL(ioctl, 0, TCGETS, (long)buffer),
	.want_first = 0, .setup = setup);
