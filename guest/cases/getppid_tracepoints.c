/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define TRACEFS "/sys/kernel/tracing"

/* Both of them, sys_enter and sys_exit; the machine's ring buffer takes their events. */
static long trace(const char *on)
{
	long fd = SYS(openat, AT_FDCWD, TRACEFS "/events/raw_syscalls/enable", O_WRONLY, 0);
	long put = fd < 0 ? fd : SYS(write, fd, on, 1, 0);

	if (fd >= 0)
		SYS(close, fd, 0, 0, 0);
	return put < 0 ? put : 0;
}

static long setup(struct work *w)
{
	(void)w;
	syscall_raw(NR_mount, (long)"tracefs", (long)TRACEFS, (long)"tracefs", 0, 0, 0);
	return trace("1");
}

static void finish(struct work *w)
{
	(void)w;
	trace("0");
}

CASE_OF("work", getppid_tracepoints, "getppid-tracepoints",
	"getppid with the tracepoints raw_syscalls on", .needs = "tracepoints of system calls",
	.changes = CHANGES_MACHINE, .first = CALL(getppid), .want_first = ANY_RESULT,
	.setup = setup, .finish = finish);
