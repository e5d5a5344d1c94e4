/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Vector states.  A case's full name is BASE+UNIT=STATE[+vl=BITS]: BASE in a task that has used
 * UNIT so, with vectors of BITS.  STATE is one of
 *
 *	none	never
 *	once	before the first window
 *	after	the same, and then it slept
 *	each	in every window, before the case's calls
 *	1/K	the same, before K repetitions of them
 */
#ifndef KENTRY_STATE_H
#define KENTRY_STATE_H

#include "run.h"
#include "unit.h"

/* Says which units there are and how long their vectors: the console's "vector" lines. */
void find_units(const unsigned long *auxv);

/* Where in `name` the state begins, at "+UNIT="; null for a plain name. */
const char *find_state(const char *name);

/* What find_state() found; 0, or -1 where it is no state. */
int parse_state(const char *text, struct state *state);

/* Has this machine the state's unit? */
int has_unit(const struct state *state);
/* Asks for the state's vector length, for this task; 0 where it was not given. */
int takes_bits(const struct state *state);

/*
 * Runs a cell in a process of its own, since a task may not get rid of having used a unit, or of
 * what else the case does to it; 0, or -1 when it was not run to its end.
 */
int run_in_child(const struct cell *cell, const struct pass *pass);

#endif
