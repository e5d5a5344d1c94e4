// SPDX-License-Identifier: GPL-2.0-or-later
/* Turns of a slot's process; turns.h says what they are. */
#include "bins.h"
#include "clock.h"
#include "counters.h"
#include "shared.h"
#include "state.h"
#include "system.h"
#include "turns.h"
#include "walks.h"

#define PR_SET_PDEATHSIG 1

/* The shortest of this many further blocks is taken as the length of a block. */
#define CALIBRATIONS 4

/* --- what is timed ---------------------------------------------------- */

static void (*spelled_body(const struct cell *cell))(struct work *)
{
	const struct body *body;

	if (cell->c->shape >= SHAPES_SPELT)
		return 0;
	body = &cell->entry->bodies[cell->c->shape];
	return body->bare ? body->bare : body->marked;
}

static __attribute__((noinline)) void empty_body(struct work *w)
{
	__asm__ volatile("" ::"r"(w) : "memory");
}

/* Runs a window: a use of the unit if the state has one, then the calls; or neither. */
static inline void one_window(const struct slot *slot, struct work *w, void (*body)(struct work *))
{
	long calls = 1;

	if (uses_in_window(&slot->cell)) {
		slot->state.unit->use();
		calls = slot->state.calls;
	}
	for (; calls; calls--) {
		if (body)
			body(w);
		else
			run_bare(&slot->cell, w);
	}
}

/*
 * ns for `windows` of them, and for those that `extra` adds: the same loop, only longer, so that
 * what is added is known to a call.
 */
static __attribute__((noinline)) long time_block(const struct slot *slot, struct work *w,
						 void (*body)(struct work *), long windows)
{
	long count = windows + windows / slot->extra, start = now();

	for (long i = 0; i < count; i++)
		one_window(slot, w, body);
	return now() - start;
}

/* ns from reading to reading; the clock is read once before, so that only the call finds a cold cache. */
static __attribute__((noinline)) long time_one(const struct slot *slot, struct work *w,
					       void (*body)(struct work *))
{
	long start;

	if (slot->walk > 0)
		walk(slot->walk);
	if (slot->code)
		run_through(slot->code);
	now();
	start = now();
	if (body != empty_body)
		one_window(slot, w, body);
	return now() - start;
}

/* --- turns ------------------------------------------------------------ */

/*
 * How many windows take about block_ns: reading the clock is a larger share of a shorter block,
 * and would be taken for a difference.
 */
static long calibrate(const struct slot *slot, struct work *w, void (*body)(struct work *))
{
	long windows = 1, ns;

	while ((ns = time_block(slot, w, body, windows)) < timing.block_ns / 4)
		windows *= 2;
	/* A disturbance only makes a block longer. */
	for (int i = 0; i < CALIBRATIONS; i++) {
		long again = time_block(slot, w, body, windows);

		ns = again < ns ? again : ns;
	}
	return windows * timing.block_ns / (ns > 0 ? ns : 1);
}

/* At least this many windows, rounded up to the multiple that makes every `extra` exact. */
static long as_multiple(long windows, long multiple)
{
	windows = (windows + multiple - 1) / multiple * multiple;
	return windows ? windows : multiple;
}

/* Of a block. */
static long choose_windows(const struct slot *slot, struct work *w, void (*body)(struct work *))
{
	long windows = timing.calls ? timing.calls : calibrate(slot, w, body);

	return as_multiple(windows, slot->multiple);
}

static void turn_in_blocks(const struct slot *slot, struct work *w, void (*body)(struct work *),
			   long turn)
{
	long *values = slot->values + turn * timing.blocks;
	struct reading *counted = slot->counted + turn * READINGS * MOST_COUNTERS;
	long windows = *slot->windows;
	int has_counters = is_counted(slot);

	time_block(slot, w, body, windows);
	if (has_counters) {
		read_counters(counted);
		read_counters(counted + MOST_COUNTERS);
	}
	for (long i = 0; i < timing.blocks; i++)
		values[i] = time_block(slot, w, body, windows);
	if (has_counters)
		read_counters(counted + 2 * MOST_COUNTERS);
	slot->empties[turn] = time_block(slot, w, empty_body, windows);
}

static void turn_one_by_one(const struct slot *slot, struct work *w, void (*body)(struct work *),
			    long turn)
{
	long count = empties_a_turn(slot);

	time_one(slot, w, body);
	for (long i = 0; i < timing.blocks; i++)
		slot->values[turn * timing.blocks + i] = time_one(slot, w, body);
	for (long i = 0; i < count; i++)
		slot->empties[turn * count + i] = time_one(slot, w, empty_body);
}

static void turn_of_tails(const struct slot *slot, struct work *w, void (*body)(struct work *))
{
	for (long i = 0; i < timing.calls; i++)
		slot->bins[bin_of(time_one(slot, w, body))]++;
	for (long i = 0; i <= timing.calls / 16; i++)
		slot->empty_bins[bin_of(time_one(slot, w, empty_body))]++;
}

/* Sleeping may discard earlier state, so "once" is once per turn. */
static void one_turn(const struct slot *slot, struct work *w, void (*body)(struct work *),
		     long turn)
{
	if (slot->cell.state && slot->state.use == USE_ONCE)
		slot->state.unit->use();
	if (timing.tails)
		turn_of_tails(slot, w, body);
	else if (slot->walk == IN_BLOCKS)
		turn_in_blocks(slot, w, body, turn);
	else
		turn_one_by_one(slot, w, body, turn);
}

/* Runs all turns: 0, or 1 where a call does not return what the case wants. */
static int run_turns(const struct slot *slot, struct work *w)
{
	void (*body)(struct work *) = spelled_body(&slot->cell);

	use_before_windows(slot->cell.state);
	one_window(slot, w, body);
	if (wrong_call(slot->cell.c, w))
		return 1;
	set_and_wake(slot->is_ready, 1);
	for (long turn = CALIBRATION; turn < timing.turns; turn++) {
		while (!*slot->go)
			wait_on(slot->go, 0);
		*slot->go = 0;
		if (turn != CALIBRATION)
			one_turn(slot, w, body, turn);
		else if (!*slot->windows)
			*slot->windows = choose_windows(slot, w, body);
		if (wrong_call(slot->cell.c, w))
			return 1;
		set_and_wake(turn_done, 1);
	}
	return 0;
}

__attribute__((noreturn)) void slot_process(const struct slot *slot, long parent)
{
	struct work w;
	long wrong;

	/* The slots' processes die with the probe. */
	SYS(prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
	if (SYS(getppid, 0, 0, 0, 0) != parent)
		exit_child(SAID);
	keep_unforked();
	if (slot->cell.state && !takes_bits(slot->cell.state)) {
		report_failure(slot->full_name, "vector", 0, -1);
		exit_child(SAID);
	}
	if (is_counted(slot))
		open_counters();
	/* Each page is mapped when it is read or run first. */
	walk(slot->walk);
	if (slot->code)
		run_through(slot->code);
	if (begin_cell(&slot->cell, &w))
		exit_child(SAID);
	wrong = run_turns(slot, &w);
	if (wrong)
		report_failure(slot->full_name, "time", wrong_call(slot->cell.c, &w),
			       wrong_call(slot->cell.c, &w) == 1 ? w.first.ret : w.second.ret);
	end_cell(&slot->cell, &w);
	exit_child(wrong ? SAID : 0);
}
