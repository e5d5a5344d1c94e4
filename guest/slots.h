/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Slots: what the processes of a group run.  A slot is a case, in a state, with what its name adds:
 * CASE[+UNIT=STATE...][+cache=SIZE[:code]][+extra=1/N].
 */
#ifndef KENTRY_SLOTS_H
#define KENTRY_SLOTS_H

#include "counters.h"
#include "run.h"
#include "unit.h"

#define MOST_SLOTS 64
#define NAME_LENGTH 128
/* A slot's `walk`: calls are timed one by one, not in blocks. */
#define ONE_BY_ONE 0
#define IN_BLOCKS (-1)
/* Readings of the counters in a turn: two before the blocks, one after them. */
#define READINGS 3

struct timing {
	long groups, turns;
	long blocks; /* a turn */
	long block_ns; /* how long a block is to take, about, where `calls` is 0; or 2000 steps of the clock */
	long calls; /* a block; of tails: a turn */
	long cpu;   /* -1: the first that is allowed */
	long seed;  /* of the order of turns */
	int tails;  /* calls one by one into a histogram */
};

struct slot {
	struct cell cell;
	struct state state;
	char name[NAME_LENGTH]; /* ends with the state */
	const char *full_name;
	long walk;  /* bytes read before each call; ONE_BY_ONE; IN_BLOCKS */
	long code;  /* bytes of code run through after that; 0: none */
	long extra; /* one more window for each `extra` windows, or NO_EXTRA */
	long multiple; /* a block's windows are a multiple of it: of `extra` of all slots of the case */
	long child; /* 0: none */
	int status; /* a wait status, once it has ended */
	/* In the arena: */
	volatile int *go, *is_ready;
	long *windows; /* of a block */
	long *values, *empties;
	struct reading *counted;
	unsigned long *bins, *empty_bins;
};

/* The cells that may be timed, by their names. */
struct cells {
	/* The next name after `name`, the first for null; null after the last. */
	const char *(*next)(const char *name);
	/* The case and the entry of the `length` bytes at `name`; 0 where there are none. */
	int (*find)(const char *name, long length, struct cell *cell);
	/* Does the kernel take that entry instruction?  1 or 0, or a negative errno. */
	long (*takes)(const struct entry *entry);
};

extern struct slot slots[MOST_SLOTS];
extern long slots_used;
extern struct timing timing;

/* Takes the slots that `cells` names, and says which are absent, and which could not be tried. */
void take_slots(const struct cells *cells);

/*
 * The cpu's counters are saved and restored whenever a task that has some is left, which would be
 * a part of what is timed: a case that does more than calls of its own has none.
 */
static inline int is_counted(const struct slot *slot)
{
	return slot->walk == IN_BLOCKS && !timing.tails && slot->cell.c->shape != SHAPE_OWN;
}

/* How many empty loops, or empty readings of the clock, a turn has. */
static inline long empties_a_turn(const struct slot *slot)
{
	return slot->walk == IN_BLOCKS ? 1 : timing.blocks / 4 + 1;
}

/* How many calls a window makes. */
static inline long calls_a_window(const struct slot *slot)
{
	return slot->cell.state ? slot->state.calls : 1;
}

#endif
