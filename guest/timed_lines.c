// SPDX-License-Identifier: GPL-2.0-or-later
/* Lines about time; timed_lines.h says what each function does. */
#include "bins.h"
#include "clock.h"
#include "counters.h"
#include "macros.h"
#include "slots.h"
#include "system.h"
#include "text.h"
#include "timed_lines.h"

static long counters; /* how many can be had, or a negative errno */
int is_unsaid;

/* --- words ------------------------------------------------------------ */

/* These lines are longer than text.h's. */
static char out[65536] IN_PAGES;
static unsigned long out_length;

static void flush(void)
{
	unsigned long done = 0;

	while (done < out_length) {
		long wrote = SYS(write, 1, out + done, out_length - done, 0);

		is_unsaid |= wrote <= 0;
		if (wrote <= 0)
			break;
		done += (unsigned long)wrote;
	}
	out_length = 0;
}

static void add(const char *text)
{
	for (; *text; text++) {
		if (out_length == sizeof(out))
			flush();
		out[out_length++] = *text;
	}
}

static void add_plain(long value)
{
	struct line line = { 0 };

	put_number(&line, value);
	add(line.text);
}

static void add_number(long value)
{
	add(" ");
	add_plain(value);
}

static void add_word(const char *text)
{
	add(" ");
	add(text);
}

/* --- of slots --------------------------------------------------------- */

static void add_slot(const char *kind, long group, long slot)
{
	add("kentry-probe ");
	add(kind);
	add_number(group);
	add_number(slot);
}

static void say_row(const char *kind, long group, long slot, long turn, const long *values,
		    long count)
{
	add_slot(kind, group, slot);
	add_number(turn);
	for (long i = 0; i < count; i++)
		add_number(values[turn * count + i]);
	add("\n");
}

/*
 * NAME=VALUE-EMPTY: what was counted around the blocks, and between two readings with nothing in
 * between.  Where the counter was not always running /RUNNING/ENABLED follows, in ns.
 */
static void say_counted(long group, long number, long turn)
{
	const struct slot *slot = &slots[number];
	const struct reading *first = slot->counted + turn * READINGS * MOST_COUNTERS;
	const struct reading *before = first + MOST_COUNTERS, *behind = before + MOST_COUNTERS;
	long calls = *slot->windows * timing.blocks * calls_a_window(slot);

	add_slot("c", group, number);
	add_number(turn);
	add_number(calls);
	for (long i = 0; i < MOST_COUNTERS; i++) {
		if (!counter_name(i))
			continue;
		add_word(counter_name(i));
		add("=");
		add_plain((long)(behind[i].value - before[i].value));
		add("-");
		add_plain((long)(before[i].value - first[i].value));
		if (behind[i].running != behind[i].enabled) {
			add("/");
			add_plain((long)behind[i].running);
			add("/");
			add_plain((long)behind[i].enabled);
		}
	}
	add("\n");
}

static void say_bins(const char *kind, long group, long number, const unsigned long *bins)
{
	for (long i = 0; i < BINS; i++) {
		if (!bins[i])
			continue;
		add_slot(kind, group, number);
		add_number(bin_start(i));
		add_number((long)bins[i]);
		add("\n");
	}
}

static void say_process(long group, long number)
{
	const struct slot *slot = &slots[number];
	long windows = slot->walk == IN_BLOCKS && !timing.tails ? *slot->windows : 1;

	add_slot("process", group, number);
	add_word(slot->full_name);
	add(" calls=");
	add_plain(windows * calls_a_window(slot));
	add("\n");
}

static void say_slot(long group, long number)
{
	const struct slot *slot = &slots[number];

	say_process(group, number);
	if (timing.tails) {
		say_bins("h", group, number, slot->bins);
		say_bins("e", group, number, slot->empty_bins);
		return;
	}
	for (long turn = 0; turn < timing.turns; turn++) {
		say_row("t", group, number, turn, slot->values, timing.blocks);
		say_row("o", group, number, turn, slot->empties, empties_a_turn(slot));
		if (is_counted(slot) && counters > 0)
			say_counted(group, number, turn);
	}
}

void say_group(long group)
{
	for (long i = 0; i < slots_used; i++)
		say_slot(group, i);
}

/* --- of the machine --------------------------------------------------- */

void say_clocks(void)
{
	add("kentry-probe clock");
	add_number(read_clock(MONOTONIC));
	add_number(read_clock(MONOTONIC_RAW));
	add_number(read_clock(BOOTTIME));
	add_number(current_cpu());
	add("\n");
	flush();
}

/* How long reading the clock takes, ns: the shortest of many readings. */
static long timer_cost(void)
{
	long least = 1L << 40;

	for (long i = 0; i < 1000; i++) {
		long start = now(), ns = now() - start;

		if (ns < least)
			least = ns;
	}
	return least;
}

static void say_counters(void)
{
	const char *before = " counters=";

	counters = open_counters();
	if (counters < 0) {
		add(" counters=none:");
		add_plain(counters);
		return;
	}
	for (long i = 0; i < MOST_COUNTERS; i++) {
		if (!counter_name(i))
			continue;
		add(before);
		add(counter_name(i));
		before = ",";
	}
	close_counters();
}

void say_timing(long cpu, long cpus, long step)
{
	add("kentry-probe timing cpu=");
	add_plain(cpu);
	add(" cpus=");
	add_plain(cpus);
	add(" timer_ns=");
	add_plain(timer_cost());
	add(" resolution_ns=");
	add_plain(step);
	add(" block_ns=");
	add_plain(timing.block_ns);
	add(clock_is_vdso() ? " clock=vdso" : " clock=syscall");
	say_counters();
	add("\n");
	flush();
}
