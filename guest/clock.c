// SPDX-License-Identifier: GPL-2.0-or-later
/* Time and place of what is timed; clock.h says what each function does. */
#include "clock.h"
#include "macros.h"
#include "system.h"
#include "vdso.h"

#define SECOND 1000000000L
/* Readings among which the step is looked for; of a clock that stood still in them, at most. */
#define READINGS 2000
#define MOST_READINGS 4000000
#define DIFFERENT_WAITS 61
/* Differences that are told apart, ns, and how many that follow each other show a fine clock. */
#define MOST_DIFFERENCE 1024
#define FINE_IN_A_ROW 4
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

/*
 * The smallest gap between differences of readings, of which `seen` has a bit for each; or
 * `least`, the smallest of them.  A difference of K steps is one of two nanoseconds that follow each
 * other, so a gap of one says nothing; but many in a row say that the step is no longer than that.
 */
static long smallest_gap(const unsigned long *seen, long least)
{
	long gap = least, last = 0, in_a_row = 1;

	for (long ns = 1; ns < MOST_DIFFERENCE; ns++) {
		if (!(seen[ns / 64] >> ns % 64 & 1))
			continue;
		in_a_row = ns - last == 1 ? in_a_row + 1 : 1;
		if (in_a_row == FINE_IN_A_ROW)
			return 1;
		if (ns - last > 1 && ns - last < gap)
			gap = ns - last;
		last = ns;
	}
	return gap;
}

/* Between readings it waits for longer and longer: else only what a reading takes is seen. */
long clock_step(void)
{
	unsigned long seen[MOST_DIFFERENCE / 64] = { 0 };
	long least = SECOND, last = now();

	for (long i = 0; i < READINGS || (least == SECOND && i < MOST_READINGS); i++) {
		long ns;

		for (volatile long wait = i % DIFFERENT_WAITS; wait > 0; wait--)
			;
		ns = now() - last;
		last += ns;
		if (ns > 0 && ns < least)
			least = ns;
		if (ns > 0 && ns < MOST_DIFFERENCE)
			seen[ns / 64] |= 1ul << ns % 64;
	}
	return smallest_gap(seen, least);
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
