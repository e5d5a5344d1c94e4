/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Time and place of what is timed: a clock that is read without entering the kernel, one cpu. */
#ifndef KENTRY_CLOCK_H
#define KENTRY_CLOCK_H

/* <linux/time.h> */
enum { MONOTONIC = 1, MONOTONIC_RAW = 4, BOOTTIME = 7 };

/* Looks for the vDSO's clock; without one the clock is a system call. */
void find_clock(const unsigned long *auxv);
int clock_is_vdso(void);

/* CLOCK_MONOTONIC in nanoseconds. */
long now(void);
/* Any clock, in nanoseconds. */
long read_clock(long clock);
/* By how much it goes on, ns, 1 at least: clock_getres(2) says 1 whatever the counter's step is. */
long clock_step(void);

/* To run on one cpu only: the one given, or the first that is allowed; the cpu, or -1. */
long stay_on(long cpu);
/* Where this task is: elsewhere, if its cpu went offline. */
long current_cpu(void);
/* How many cpus this task may run on. */
long cpus_allowed(void);

#endif
