// SPDX-License-Identifier: GPL-2.0-or-later
/* Groups of slots: the parent of their processes; timed.h says what each function does. */
#include "bins.h"
#include "clock.h"
#include "random.h"
#include "shared.h"
#include "slots.h"
#include "system.h"
#include "text.h"
#include "timed.h"
#include "timed_lines.h"
#include "turns.h"

#define WNOHANG 1

/* A block takes this many steps of the clock, so its two ends lose less than 0.05 % of it. */
#define STEPS_A_BLOCK 2000

/* Has the slot's process ended?  Keeps its status. */
static int has_ended(struct slot *slot)
{
	if (slot->child > 0 && SYS(wait4, slot->child, &slot->status, WNOHANG, 0) == slot->child)
		slot->child = 0;
	return slot->child <= 0;
}

/* A wait status: the signal that ended it in bits 0 to 6, exit()'s byte above. */
static void say_status(const struct slot *slot)
{
	int signal = slot->status & 0x7f, code = slot->status >> 8 & 0xff;

	if (signal)
		report_failure(slot->full_name, "turn", 0, -signal);
	else if (code != SAID)
		report_failure(slot->full_name, "turn", 0, code);
}

/* Waits until the slot's process sets `word`; 0, or -1 where it has ended before. */
static int wait_for(volatile int *word, struct slot *slot)
{
	while (!*word) {
		wait_on(word, 0);
		if (!*word && has_ended(slot) && !*word) {
			say_status(slot);
			return -1;
		}
	}
	return 0;
}

/* A random order for every even turn, and the opposite one for the turn after it. */
static void order_slots(long *order, long turn)
{
	for (long i = 0; i < slots_used; i++)
		order[i] = turn % 2 ? order[i] : i;
	if (turn % 2 == 0)
		shuffle(order, slots_used);
	for (long i = 0; i < slots_used / 2 && turn % 2; i++) {
		long kept = order[i];

		order[i] = order[slots_used - 1 - i];
		order[slots_used - 1 - i] = kept;
	}
}

static int run_group_turn(long turn, long *order)
{
	order_slots(order, turn);
	for (long i = 0; i < slots_used; i++) {
		struct slot *slot = &slots[order[i]];

		*turn_done = 0;
		set_and_wake(slot->go, 1);
		if (wait_for(turn_done, slot))
			return -1;
	}
	return 0;
}

/* Only those that were not waited for: another process may have the number of one that was. */
static void end_children(void)
{
	for (long i = 0; i < slots_used; i++) {
		if (slots[i].child > 0) {
			SYS(kill, slots[i].child, SIGKILL, 0, 0);
			wait_child(slots[i].child);
		}
		slots[i].child = 0;
	}
}

/* All slots of a case get blocks of the same number of windows, the largest that one found. */
static void make_alike(void)
{
	for (long i = 0; i < slots_used; i++)
		for (long j = 0; j < slots_used; j++)
			if (same(slots[i].name, slots[j].name) && slots[i].walk == slots[j].walk &&
			    *slots[j].windows > *slots[i].windows)
				*slots[i].windows = *slots[j].windows;
}

static void clear_slot(struct slot *slot)
{
	*slot->go = *slot->is_ready = 0;
	for (long bin = 0; bin < BINS && timing.tails; bin++)
		slot->bins[bin] = slot->empty_bins[bin] = 0;
}

/* Forks a process for every slot; 0, or -1 where that fails. */
static int fork_slots(const long *order)
{
	long parent = SYS(getpid, 0, 0, 0, 0);

	for (long i = 0; i < slots_used; i++) {
		struct slot *slot = &slots[order[i]];

		clear_slot(slot);
		slot->child = fork_child();
		if (slot->child == 0)
			slot_process(slot, parent);
		if (slot->child < 0) {
			report_failure(slot->full_name, "fork", 0, slot->child);
			return -1;
		}
	}
	return 0;
}

/* Runs all turns of every slot's process; 0, or -1 where one did not come to its end. */
static int run_group(void)
{
	static long order[MOST_SLOTS];
	int wrong;

	order_slots(order, 0);
	wrong = fork_slots(order);
	for (long i = 0; i < slots_used && !wrong; i++)
		wrong = wait_for(slots[i].is_ready, &slots[i]);
	for (long turn = CALIBRATION; turn < timing.turns && !wrong; turn++) {
		wrong = run_group_turn(turn, order);
		if (turn == CALIBRATION)
			make_alike();
	}
	end_children();
	return wrong;
}

/* Returns to the cpu if something moved this task; 0 if the cpu is offline. */
static int is_there_again(long cpu)
{
	return cpu < 0 || stay_on(cpu) == cpu;
}

static long run_groups(long cpu)
{
	long done = 0;

	say_clocks();
	while (done < timing.groups && slots_used && !is_unsaid && is_there_again(cpu) &&
	       run_group() == 0) {
		say_group(done);
		say_clocks();
		done++;
	}
	return done;
}

long run_timed(const struct timing *wanted, const struct cells *cells)
{
	long cpus = cpus_allowed(), cpu = stay_on(wanted->cpu), done = 0;
	long step = clock_step();

	timing = *wanted;
	if (timing.block_ns < STEPS_A_BLOCK * step)
		timing.block_ns = STEPS_A_BLOCK * step;
	seed_random((unsigned long)timing.seed);
	say_timing(cpu, cpus, step);
	if (cpu >= 0 || timing.cpu < 0) {
		take_slots(cells);
		if (slots_used)
			share_memory();
		done = run_groups(cpu);
	}
	return is_unsaid ? -1 : done;
}
