// SPDX-License-Identifier: GPL-2.0-or-later
/* Time and place of what is timed; clock.h says what each function does. */
#include "probe.h"
#include "arch.h"
#include "numbers.h"
#include "clock.h"

#define SECOND 1000000000L
/* Readings among which the smallest step is looked for. */
#define READINGS 2000
#define MOST_CPUS 8192

static clock_gettime_fn vdso_clock;

void find_clock(const unsigned long *auxv)
{
	vdso_clock = vdso_clock_gettime(auxv);
}

int clock_is_vdso(void)
{
	return vdso_clock != 0;
}

long read_clock(long clock)
{
	long time[2];

	if (vdso_clock)
		vdso_clock(clock, time);
	else
		SYS(clock_gettime, clock, time, 0, 0);
	return time[0] * SECOND + time[1];
}

long now(void)
{
	return read_clock(MONOTONIC);
}

long clock_step(void)
{
	long least = SECOND, last = now();

	for (long i = 0; i < READINGS; i++) {
		long time = now();

		if (time > last && time - last < least)
			least = time - last;
		last = time;
	}
	return least;
}

static long allowed(unsigned long *mask, long bytes)
{
	return SYS(sched_getaffinity, 0, bytes, mask, 0);
}

long cpus_allowed(void)
{
	unsigned long mask[MOST_CPUS / 64] = { 0 };
	long count = 0;

	if (allowed(mask, sizeof(mask)) < 0)
		return 1;
	for (long cpu = 0; cpu < MOST_CPUS; cpu++)
		count += mask[cpu / 64] >> cpu % 64 & 1;
	return count;
}

long stay_on(long cpu)
{
	unsigned long mask[MOST_CPUS / 64] = { 0 };
	long got = allowed(mask, sizeof(mask));

	if (cpu < 0 && got > 0)
		for (cpu = 0; cpu < MOST_CPUS && !(mask[cpu / 64] >> cpu % 64 & 1); cpu++)
			;
	if (cpu < 0 || cpu >= MOST_CPUS)
		return -1;
	for (unsigned long i = 0; i < ARRAY_SIZE(mask); i++)
		mask[i] = 0;
	mask[cpu / 64] = 1ul << cpu % 64;
	return SYS(sched_setaffinity, 0, sizeof(mask), mask, 0) == 0 ? cpu : -1;
}

long current_cpu(void)
{
	unsigned int cpu = 0;

	SYS(getcpu, &cpu, 0, 0, 0);
	return cpu;
}
