/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"
#include "clock.h"

/* kentry boots a second cpu with nohz_full=1; the file, of what the kernel took, is "1". */
static long setup(struct work *w)
{
	char cpus[2] = { 0 };
	long fd = SYS(openat, AT_FDCWD, "/sys/devices/system/cpu/nohz_full", O_RDONLY, 0);
	long got = fd < 0 ? fd : SYS(read, fd, cpus, sizeof(cpus), 0);

	(void)w;
	if (fd >= 0)
		SYS(close, fd, 0, 0, 0);
	if (got < 0)
		return got;
	return cpus[0] == '1' && cpus[1] == '\n' && stay_on(1) == 1 ? 0 : -ENODEV;
}

CASE_OF("nohz", getppid_nohz_full, "getppid-nohz-full",
	"getppid on a cpu of nohz_full=, where the kernel accounts at each entry and exit",
	.needs = "a cpu of nohz_full", .changes = CHANGES_TASK, .first = CALL(getppid),
	.want_first = ANY_RESULT, .setup = setup);
