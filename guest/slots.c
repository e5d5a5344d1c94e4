// SPDX-License-Identifier: GPL-2.0-or-later
/* Slots by their names; slots.h says what each function does. */
#include "clock.h"
#include "macros.h"
#include "slots.h"
#include "state.h"
#include "system.h"
#include "text.h"
#include "walks.h"

#define KIB 1024L
/* "cold": more bytes than a core's own caches and its share of the shared one. */
#define COLD_BYTES (16 * KIB * KIB)
#define MOST_BYTES (1L << 40)
/* Adds no window: no block has this many. */
#define NO_EXTRA (1L << 62)
/* The largest common multiple of all slots' `extra`. */
#define MOST_MULTIPLE (1L << 20)

struct slot slots[MOST_SLOTS] IN_PAGES;
long slots_used;
struct timing timing;

/* --- names ------------------------------------------------------------ */

/* Parses "256K", "4M", "cold" or "warm"; returns what follows it, null for anything else. */
static const char *take_size(const char *text, long *bytes)
{
	const char *rest;

	*bytes = COLD_BYTES;
	if ((rest = after(text, "cold")))
		return rest;
	*bytes = ONE_BY_ONE;
	if ((rest = after(text, "warm")))
		return rest;
	rest = take_number(text, bytes);
	if (!rest || *bytes > MOST_BYTES)
		return 0;
	if (*rest == 'K' || *rest == 'M')
		*bytes *= *rest++ == 'K' ? KIB : KIB * KIB;
	return *bytes > 0 ? rest : 0;
}

/* A size, after which ":code" may stand; returns what follows, null for anything else. */
static const char *take_walk(const char *text, struct slot *slot)
{
	const char *rest = take_size(text, &slot->walk);
	const char *code = rest && slot->walk != ONE_BY_ONE ? after(rest, ":code") : 0;

	if (code)
		slot->code = slot->walk;
	return code ? code : rest;
}

/* Parses "+cache=..." and "+extra=1/N", which follow a case and its state; 0, or -1. */
static int take_additions(const char *text, struct slot *slot)
{
	const char *rest = text;

	if (after(rest, "+cache="))
		rest = take_walk(after(rest, "+cache="), slot);
	if (rest && after(rest, "+extra=1/"))
		rest = take_number(after(rest, "+extra=1/"), &slot->extra);
	return rest && !*rest && slot->extra > 0 ? 0 : -1;
}

static int parse_slot(const char *name, const struct cells *cells, struct slot *slot)
{
	const char *state;
	long length = 0;

	*slot = (struct slot){
		.walk = IN_BLOCKS, .extra = NO_EXTRA, .multiple = 1, .full_name = name
	};
	while (name[length] && !after(name + length, "+cache=") && !after(name + length, "+extra="))
		length++;
	if (length >= NAME_LENGTH || take_additions(name + length, slot))
		return -1;
	for (long i = 0; i < length; i++)
		slot->name[i] = name[i];
	state = find_state(slot->name);
	if (state && parse_state(state, &slot->state))
		return -1;
	if (!cells->find(slot->name, state ? state - slot->name : length, &slot->cell))
		return -1;
	slot->cell.name = slot->full_name;
	slot->cell.state = state ? &slot->state : 0;
	return 0;
}

/* --- what can be timed ------------------------------------------------ */

/* A child asks, because asking changes the task: 1 or 0, or a negative errno. */
static long length_is_there(const struct state *state)
{
	long child;

	if (!state->bits)
		return 1;
	child = fork_child();
	if (child == 0)
		exit_child(!takes_bits(state));
	return child < 0 ? child : wait_child(child) == 0;
}

/* Why it cannot be timed; null if it can, or if asking failed (then `err` is set). */
static const char *why_not(const struct slot *slot, const struct cells *cells, long *err)
{
	long is_there = 1, is_taken = 1;

	if (slot->cell.c->shape == SHAPE_MARKED)
		return "it is a part of a window: it has no time of its own";
	if (slot->cell.c->shape == SHAPE_VDSO && !clock_is_vdso())
		return "no vDSO";
	if (slot->cell.c->changes >= CHANGES_MACHINE)
		return "it changes the machine for good, and so the times of others";
	if (slot->code && !may_run_code())
		return "a program may not run code here that it has written";
	if (slot->cell.state && !has_unit(slot->cell.state))
		return "no-unit";
	if (slot->cell.state)
		is_there = length_is_there(slot->cell.state);
	if (!is_there)
		return "no such vector length";
	if (is_there > 0 && slot->cell.entry->compat)
		is_taken = cells->takes(slot->cell.entry);
	if (!is_taken)
		return "the kernel does not take this entry instruction";
	*err = is_there < 0 ? is_there : is_taken < 0 ? is_taken : 0;
	return 0;
}

static long common_divisor(long a, long b)
{
	while (b) {
		long rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Makes the blocks of all slots of the case a multiple of `extra`; null, or why that fails. */
static const char *share_multiple(struct slot *slot)
{
	long multiple = 1;

	for (long i = 0; i < slots_used; i++)
		if (same(slots[i].name, slot->name))
			multiple = slots[i].multiple;
	if (slot->extra != NO_EXTRA && slot->extra > MOST_MULTIPLE)
		return "its share is less than a call in 1048576";
	if (slot->extra != NO_EXTRA)
		multiple *= slot->extra / common_divisor(multiple, slot->extra);
	if (multiple > MOST_MULTIPLE)
		return "its share has no common multiple with the others'";
	slot->multiple = multiple;
	for (long i = 0; i < slots_used; i++)
		if (same(slots[i].name, slot->name))
			slots[i].multiple = multiple;
	return 0;
}

/* A child tries the setup, and says why it is not possible: 1 or 0, or a negative errno. */
static long can_begin(const struct cell *cell)
{
	long child = fork_child();

	if (child == 0) {
		struct work w;
		long err = begin_cell(cell, &w);

		if (!err)
			end_cell(cell, &w);
		exit_child(err != 0);
	}
	return child < 0 ? child : wait_child(child) == 0;
}

void take_slots(const struct cells *cells)
{
	slots_used = 0;
	for (const char *name = cells->next(0); name && slots_used < MOST_SLOTS;
	     name = cells->next(name)) {
		struct slot *slot = &slots[slots_used];
		const char *reason = "no such case";
		long err = 0, begins = 0;

		if (parse_slot(name, cells, slot) == 0)
			reason = why_not(slot, cells, &err);
		if (!reason && !err)
			reason = share_multiple(slot);
		if (!reason && !err)
			begins = can_begin(&slot->cell);
		if (begins < 0)
			err = begins;
		if (reason)
			report_absent_cell(name, reason);
		else if (err)
			report_failure(name, "fork", 0, err);
		else if (begins)
			slots_used++;
	}
}
