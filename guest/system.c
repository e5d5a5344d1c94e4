// SPDX-License-Identifier: GPL-2.0-or-later
/* What the probe needs of a system beside its windows; system.h says what each function does. */
#include "arch.h"
#include "system.h"
#include "window.h"

/*
 * After so many reads the kernel has all pages of a file among its active ones; each read does
 * something else until then (folio_mark_accessed(), mm/swap.c: in batches of 15 or 31).
 */
#define READS_TO_SETTLE 16

char buffer[4096 + BUFFER_SLACK];
char pages[PAGES_SIZE + BUFFER_SLACK] __attribute__((aligned(4096)));

long moved(long argument, long place)
{
	return argument == (long)buffer || argument == (long)pages ? argument + place : argument;
}

long syscall_raw(long nr, long a, long b, long c, long d, long e, long f)
{
	return syscall6(nr, a, b, c, d, e, f);
}

long fork_child(void)
{
	return SYS(clone, SIGCHLD, 0, 0, 0);
}

void exit_child(long status)
{
	SYS(exit, status, 0, 0, 0);
	__builtin_unreachable();
}

int wait_child(long child)
{
	int status = -1;

	if (child > 0)
		SYS(wait4, child, &status, 0, 0);
	return status;
}

unsigned long auxv_value(const unsigned long *auxv, unsigned long type)
{
	for (; auxv[0]; auxv += 2)
		if (auxv[0] == type)
			return auxv[1];
	return 0;
}

long open_for_first(struct work *w, const char *path, int flags)
{
	long fd = SYS(openat, AT_FDCWD, path, flags, 0);

	w->first.args[0] = fd;
	return fd < 0 ? fd : 0;
}

long memory_file_for_first(struct work *w)
{
	long fd = SYS(memfd_create, "kentry", 0, 0, 0);
	long size = PAGES_SIZE, got;

	w->first.args[0] = fd;
	if (fd < 0)
		return fd;
	for (long i = 0; i < size; i++)
		pages[i] = (char)(i | 1);
	got = SYS(pwrite64, fd, pages, size, 0);
	for (int i = 0; i < READS_TO_SETTLE && got == size; i++)
		got = SYS(pread64, fd, pages, size, 0);
	return got == size ? 0 : got < 0 ? got : -1;
}
