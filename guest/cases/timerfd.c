/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

/* struct itimerspec: interval, then value, in seconds and nanoseconds. */
static long armed[4] FOR_KERNEL = { 0, 0, 100000, 0 };
static long disarmed[4] FOR_KERNEL;

static long setup(struct work *w)
{
	long fd = SYS(timerfd_create, CLOCK_MONOTONIC, 0, 0, 0);

	w->first.args[0] = w->second.args[0] = fd;
	return fd < 0 ? fd : 0;
}

CASE_OF("events", timerfd, "timerfd", "timerfd_settime that arms a timer, then one that disarms it",
	.shape = SHAPE_TWO, .first = CALL(timerfd_settime, 0, 0, (long)armed, 0),
	.second = CALL(timerfd_settime, 0, 0, (long)disarmed), .want_first = 0, .want_second = 0,
	.setup = setup);
