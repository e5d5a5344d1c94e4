/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define EPOLL_CTL_ADD 1
#define EPOLLIN 1

static long setup(struct work *w)
{
	/* struct epoll_event: packed on x86-64 only; what is behind the events is the caller's. */
	const int event[4] = { EPOLLIN };
	long epoll = SYS(epoll_create1, 0, 0, 0, 0), file = SYS(eventfd2, 1, 0, 0, 0);

	w->first.args[0] = epoll;
	if (epoll < 0 || file < 0)
		return epoll < 0 ? epoll : file;
	return SYS(epoll_ctl, epoll, EPOLL_CTL_ADD, file, event);
}

/* epoll_pwait on every architecture: arm64 and riscv64 have no epoll_wait of their own. */
static void run(struct work *w)
{
	w->first.ret = syscall_raw(NR_epoll_pwait, w->first.args[0], w->first.args[1], 1, 0, 0, 0);
}

CASE_OF("events", epoll_wait, "epoll_wait", "epoll_pwait for one eventfd that can be read",
	.shape = SHAPE_OWN, .first = CALL(epoll_pwait, 0, (long)buffer), .want_first = 1,
	.setup = setup, .run = run);
