/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The cpu's own counters, by perf_event_open(2): where the kernel lets this task have them. */
#ifndef KENTRY_COUNTERS_H
#define KENTRY_COUNTERS_H

#define MOST_COUNTERS 6

/* What one counter has counted; `enabled` and `running` in ns differ where it was multiplexed. */
struct reading {
	unsigned long value, enabled, running;
};

/* Opens what can be had for this task; how many, or a negative errno where none can. */
long open_counters(void);
void close_counters(void);
/* Its name, such as kernel-cycles; null where it could not be had. */
const char *counter_name(long counter);
/* Of every counter that is open; those that are not stay as they are. */
void read_counters(struct reading readings[MOST_COUNTERS]);

/* The machine's own counter of instructions, by which another one can be checked. */
extern const char *const own_counter;
/* 0, or a negative errno. */
long open_own_counter(void);
long read_own_counter(void);

#endif
