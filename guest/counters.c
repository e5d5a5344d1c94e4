// SPDX-License-Identifier: GPL-2.0-or-later
/* The cpu's own counters; counters.h says what each function does. */
#include "arch.h"
#include "counters.h"
#include "system.h"

/* include/uapi/linux/perf_event.h: the first 64 bytes of the attributes, PERF_ATTR_SIZE_VER0. */
struct attributes {
	unsigned int type, size;
	unsigned long config, sample_period, sample_type, read_format, flags;
	unsigned int wakeup_events, bp_type;
	unsigned long config1;
};

#define TYPE_HARDWARE 0
#define FORMAT_ENABLED_AND_RUNNING 3
#define EXCLUDE_USER (1ul << 4)
#define EXCLUDE_KERNEL (1ul << 5)
#define EXCLUDE_HYPERVISOR (1ul << 6)
#define CLOSE_ON_EXEC 8
/* Out of the way of the descriptors that cases are given. */
#define FIRST_FD 200
/* And within the table that a task begins with: in a larger one openat takes another path. */
#define OWN_FD 32

enum { CYCLES = 0, INSTRUCTIONS = 1, BRANCHES = 4 };

static const struct {
	const char *name;
	unsigned long config, not ;
} kinds[MOST_COUNTERS] = {
	{ "kernel-cycles", CYCLES, EXCLUDE_USER },
	{ "user-cycles", CYCLES, EXCLUDE_KERNEL },
	{ "kernel-instructions", INSTRUCTIONS, EXCLUDE_USER },
	{ "user-instructions", INSTRUCTIONS, EXCLUDE_KERNEL },
	{ "kernel-branches", BRANCHES, EXCLUDE_USER },
	{ "user-branches", BRANCHES, EXCLUDE_KERNEL },
};

static int is_open[MOST_COUNTERS];

/* As the descriptor `place`; or a negative errno. */
static long open_event(unsigned long config, unsigned long flags, long place)
{
	struct attributes attributes = {
		.type = TYPE_HARDWARE,
		.size = sizeof(attributes),
		.config = config,
		.read_format = FORMAT_ENABLED_AND_RUNNING,
		.flags = flags,
	};
	long fd = syscall_raw(NR_perf_event_open, (long)&attributes, 0, -1, -1, CLOSE_ON_EXEC, 0);
	long moved;

	if (fd < 0)
		return fd;
	moved = SYS(dup3, fd, place, 0, 0);
	SYS(close, fd, 0, 0, 0);
	return moved;
}

long open_counters(void)
{
	long count = 0, err = -ENOENT;

	for (long i = 0; i < MOST_COUNTERS; i++) {
		long fd = open_event(kinds[i].config, kinds[i].not | EXCLUDE_HYPERVISOR,
				     FIRST_FD + i);

		is_open[i] = fd >= 0;
		count += is_open[i];
		if (fd < 0)
			err = fd;
	}
	return count ? count : err;
}

void close_counters(void)
{
	for (long i = 0; i < MOST_COUNTERS; i++)
		if (is_open[i])
			SYS(close, FIRST_FD + i, 0, 0, 0);
}

const char *counter_name(long counter)
{
	return is_open[counter] ? kinds[counter].name : 0;
}

void read_counters(struct reading readings[MOST_COUNTERS])
{
	for (long i = 0; i < MOST_COUNTERS; i++)
		if (is_open[i])
			SYS(read, FIRST_FD + i, &readings[i], sizeof(readings[i]), 0);
}

#ifdef ARCH_COUNTER
const char *const own_counter = ARCH_COUNTER;

long open_own_counter(void)
{
	return 0;
}

long read_own_counter(void)
{
	return read_arch_counter();
}
#else
const char *const own_counter = ARCH_PERF_COUNTER;
static long own_fd;

long open_own_counter(void)
{
	own_fd = open_event(INSTRUCTIONS, ARCH_PERF_FLAGS, OWN_FD);
	return own_fd < 0 ? own_fd : 0;
}

long read_own_counter(void)
{
	struct reading now = { 0 };

	SYS(read, own_fd, &now, sizeof(now), 0);
	return (long)now.value;
}
#endif
