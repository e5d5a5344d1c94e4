/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lines about time that probe.c lists. */
#ifndef KENTRY_TIMED_LINES_H
#define KENTRY_TIMED_LINES_H

/* Of the machine: the cpu, how many there are, the clock's step in ns, and which counters. */
void say_timing(long cpu, long cpus, long step);
/* What the clocks say now, and where this task is. */
void say_clocks(void);
/* All turns of the slots of a group; say_clocks() writes what is not yet on the console. */
void say_group(long group);
/* Something could not be written. */
extern int is_unsaid;

#endif
