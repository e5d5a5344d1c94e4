/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cases in time: blocks of calls, or calls one by one, by processes that take turns on one cpu.
 *
 * A slot is a case that a process runs; the same case may have several slots.  A group is one
 * fork of all the slots.  In a turn of the group every slot has one, in random order, and in the
 * next turn in the opposite one, so that what drifts meanwhile is in all of them alike.
 */
#ifndef KENTRY_TIMED_H
#define KENTRY_TIMED_H

#include "run.h"

struct timing {
	long groups, turns;
	long blocks; /* a turn */
	long block_ns; /* how long a block is to take, about, where `calls` is 0; or 2000 steps of the clock */
	long calls; /* a block; of tails: a turn */
	long cpu;   /* -1: the first that is allowed */
	long seed;  /* of the order of turns */
	int tails;  /* calls one by one into a histogram */
};

/* The case and the entry of the `length` bytes at `name`; 0 where there are none. */
int find_cell(const char *name, long length, struct cell *cell);
/* Does the kernel take that entry instruction?  1 or 0, or a negative errno. */
long takes_entry(const struct entry *entry);

/*
 * Runs the slots whose names next() gives, the first for null; says what probe.c lists.
 * Returns the number of groups that came to their end; -1 where something could not be written.
 */
long run_timed(const struct timing *timing, const char *(*next)(const char *name));

#endif
