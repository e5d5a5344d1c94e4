/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIGINFO_BYTES 128

static const unsigned long signals = 1ul << (SIGUSR1 - 1);

static long setup(struct work *w)
{
	long fd = SYS(signalfd4, -1, &signals, sizeof(signals), 0);

	w->first.args[0] = SYS(getpid, 0, 0, 0, 0);
	w->second.args[0] = fd;
	return fd < 0 ? fd : SYS(rt_sigprocmask, SIG_BLOCK, &signals, 0, sizeof(signals));
}

static void finish(struct work *w)
{
	(void)w;
	SYS(rt_sigprocmask, SIG_UNBLOCK, &signals, 0, sizeof(signals));
}

CASE_OF("events", signalfd, "signalfd",
	"kill of itself with a signal that it blocks, then read of it from a signalfd",
	.shape = SHAPE_TWO, .first = CALL(kill, 0, SIGUSR1),
	.second = CALL(read, 0, (long)buffer, SIGINFO_BYTES), .want_first = 0,
	.want_second = SIGINFO_BYTES, .setup = setup, .finish = finish);
