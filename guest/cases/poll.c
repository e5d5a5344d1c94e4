/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define POLLIN 1

static struct {
	int fd;
	short events, got;
} polled FOR_KERNEL = { .events = POLLIN };
static long no_time[2] FOR_KERNEL;

static long setup(struct work *w)
{
	(void)w;
	polled.fd = (int)SYS(eventfd2, 1, 0, 0, 0);
	return polled.fd < 0 ? polled.fd : 0;
}

/* ppoll on every architecture: arm64 and riscv64 have no poll of their own. */
CASE_OF("events", poll, "poll", "ppoll for one eventfd that can be read",
	.first = CALL(ppoll, (long)&polled, 1, (long)no_time, 0), .want_first = 1, .setup = setup);
