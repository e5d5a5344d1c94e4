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

#include "slots.h"

/*
 * Runs the slots that `cells` names; says what probe.c lists.
 * Returns the number of groups that came to their end; -1 where something could not be written.
 */
long run_timed(const struct timing *timing, const struct cells *cells);

#endif
