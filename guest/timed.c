// SPDX-License-Identifier: GPL-2.0-or-later
/* Cases in time; timed.h says what each function does. */
#include "clock.h"
#include "counters.h"
#include "random.h"
#include "state.h"
#include "system.h"
#include "text.h"
#include "timed.h"

#define MAP_SHARED_ANONYMOUS 0x21
#define MADV_DONTFORK 10
#define MADV_NOHUGEPAGE 15
#define WNOHANG 1
#define PR_SET_PDEATHSIG 1

#define MOST_SLOTS 64
#define NAME_LENGTH 128
#define LINE_BYTES 64
#define KIB 1024L
/* "cold": more bytes than a core's own caches and its share of the shared one. */
#define COLD_BYTES (16 * KIB * KIB)
/* Adds no window: no block has this many. */
#define NO_EXTRA (1L << 62)
/* The largest common multiple of all slots' `extra`. */
#define MOST_MULTIPLE (1L << 20)
/* A block takes this many steps of the clock, so its two ends lose less than 0.05 % of it. */
#define STEPS_A_BLOCK 2000
/* The exit status of a process that has printed why it ends. */
#define SAID 2
/* Calls are timed one by one, not in blocks. */
#define ONE_BY_ONE 0
#define IN_BLOCKS (-1)
/* The shortest of this many further blocks is taken as the length of a block. */
#define CALIBRATIONS 4
/* Readings of the counters in a turn: two before the blocks, one after them. */
#define READINGS 3
/* Before the first turn the slots calibrate one after the other: they would disturb each other. */
#define CALIBRATION (-1)
/* Seconds that the parent waits for a turn before it checks that the child is alive. */
#define LOOK_SECONDS 2
/* Up to here a histogram has a bin for each nanosecond; above, this many for each power of two. */
#define FINE_BINS 4096
#define FINE_BITS 12
#define BINS_A_POWER 64
#define POWER_BITS 6
#define BINS (FINE_BINS + (48 - FINE_BITS) * BINS_A_POWER)

struct slot {
	struct cell cell;
	struct state state;
	char name[NAME_LENGTH]; /* ends with the state */
	const char *full_name;
	long walk;  /* bytes read before each call; ONE_BY_ONE; IN_BLOCKS */
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

static struct slot slots[MOST_SLOTS];
static long slots_used;
static volatile int *turn_done;
static struct timing timing;
/* Memory shared by the slots and the parent; memory that walks read, if there are walks. */
static char *arena, *walked;
static long arena_bytes, walked_bytes;
static long counters; /* how many can be had, or a negative errno */
static int is_unsaid; /* something could not be written */

/* --- words ------------------------------------------------------------ */

/* These lines are longer than text.h's. */
static char out[65536];
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

/* --- names ------------------------------------------------------------ */

/* Parses "256K", "4M", "cold" or "warm"; returns what follows it, null for anything else. */
static const char *take_walk(const char *text, long *walk)
{
	const char *rest;

	*walk = COLD_BYTES;
	if ((rest = after(text, "cold")))
		return rest;
	*walk = ONE_BY_ONE;
	if ((rest = after(text, "warm")))
		return rest;
	rest = take_number(text, walk);
	if (rest && (*rest == 'K' || *rest == 'M'))
		*walk *= *rest++ == 'K' ? KIB : KIB * KIB;
	return rest && *walk > 0 ? rest : 0;
}

/* Parses "+cache=..." and "+extra=1/N", which follow a case and its state; 0, or -1. */
static int take_additions(const char *text, struct slot *slot)
{
	const char *rest = text;

	if (after(rest, "+cache="))
		rest = take_walk(after(rest, "+cache="), &slot->walk);
	if (rest && after(rest, "+extra=1/"))
		rest = take_number(after(rest, "+extra=1/"), &slot->extra);
	return rest && !*rest && slot->extra > 0 ? 0 : -1;
}

static int parse_slot(const char *name, struct slot *slot)
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
	if (!find_cell(slot->name, state ? state - slot->name : length, &slot->cell))
		return -1;
	slot->cell.name = slot->full_name;
	slot->cell.state = state ? &slot->state : 0;
	return 0;
}

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
static const char *why_not(const struct slot *slot, long *err)
{
	long is_there = 1, is_taken = 1;

	if (slot->cell.c->shape == SHAPE_MARKED)
		return "it is a part of a window: it has no time of its own";
	if (slot->cell.c->shape == SHAPE_VDSO && !clock_is_vdso())
		return "no vDSO";
	if (slot->cell.c->changes == CHANGES_MACHINE)
		return "it changes the machine for good, and so the times of others";
	if (slot->cell.state && !has_unit(slot->cell.state))
		return "no-unit";
	if (slot->cell.state)
		is_there = length_is_there(slot->cell.state);
	if (!is_there)
		return "no such vector length";
	if (is_there > 0 && slot->cell.entry->compat)
		is_taken = takes_entry(slot->cell.entry);
	if (!is_taken)
		return "the kernel does not take this entry instruction";
	*err = is_there < 0 ? is_there : is_taken < 0 ? is_taken : 0;
	return 0;
}

/*
 * The cpu's counters are saved and restored whenever a task that has some is left, which would be
 * a part of what is timed: a case that does more than calls of its own has none.
 */
static int is_counted(const struct slot *slot)
{
	return slot->walk == IN_BLOCKS && !timing.tails && slot->cell.c->shape != SHAPE_OWN;
}

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

/* Reads `bytes`, a cache line after the other, so that little else is in the caches. */
static __attribute__((noinline)) void walk(long bytes)
{
	for (long at = 0; at < bytes; at += LINE_BYTES)
		(void)*(volatile char *)(walked + at);
}

/* ns from reading to reading; the clock is read once before, so that only the call finds a cold cache. */
static __attribute__((noinline)) long time_one(const struct slot *slot, struct work *w,
					       void (*body)(struct work *))
{
	long start;

	if (slot->walk > 0)
		walk(slot->walk);
	now();
	start = now();
	if (body != empty_body)
		one_window(slot, w, body);
	return now() - start;
}

/* By hand: not every architecture has an instruction for it. */
static long top_bit(long ns)
{
	long bit = 0;

	for (; ns > 1; ns >>= 1)
		bit++;
	return bit;
}

static long bin_of(long ns)
{
	long power = top_bit(ns);

	if (ns < 0)
		return 0;
	if (ns < FINE_BINS)
		return ns;
	if (power >= 48)
		return BINS - 1;
	return FINE_BINS + (power - FINE_BITS) * BINS_A_POWER +
	       (ns >> (power - POWER_BITS) & (BINS_A_POWER - 1));
}

/* The lower bound of a bin in ns. */
static long bin_start(long bin)
{
	long power = (bin - FINE_BINS) / BINS_A_POWER + FINE_BITS;

	if (bin < FINE_BINS)
		return bin;
	return (1L << power) + ((bin - FINE_BINS) % BINS_A_POWER << (power - POWER_BITS));
}

/* --- the child -------------------------------------------------------- */

static void wait_on(volatile int *word, int value)
{
	const long time[2] = { LOOK_SECONDS, 0 };

	syscall_raw(NR_futex, (long)word, FUTEX_WAIT, value, (long)time, 0, 0);
}

static void set_and_wake(volatile int *word, int value)
{
	*word = value;
	syscall_raw(NR_futex, (long)word, FUTEX_WAKE, 1, 0, 0, 0);
}

/* Times the empty loops, or empty readings, of a turn. */
static long empties_a_turn(const struct slot *slot)
{
	return slot->walk == IN_BLOCKS ? 1 : timing.blocks / 4 + 1;
}

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

	time_block(slot, w, body, windows);
	if (is_counted(slot))
		read_counters(counted);
	if (is_counted(slot))
		read_counters(counted + MOST_COUNTERS);
	for (long i = 0; i < timing.blocks; i++)
		values[i] = time_block(slot, w, body, windows);
	if (is_counted(slot))
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

/*
 * What a case forks has no use for what this process and its parent have in common, and would be
 * the slower the more of it there is.
 */
static void keep_from_children(void)
{
	SYS(madvise, arena, arena_bytes, MADV_DONTFORK, 0);
	if (walked)
		SYS(madvise, walked, walked_bytes, MADV_DONTFORK, 0);
}

static __attribute__((noreturn)) void slot_process(const struct slot *slot, long parent)
{
	struct work w;
	long wrong;

	/* The slots' processes die with the probe. */
	SYS(prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
	if (SYS(getppid, 0, 0, 0, 0) != parent)
		exit_child(SAID);
	keep_from_children();
	if (slot->cell.state && !takes_bits(slot->cell.state)) {
		report_failure(slot->full_name, "vector", 0, -1);
		exit_child(SAID);
	}
	if (is_counted(slot))
		open_counters();
	/* Each page is mapped when it is read first. */
	walk(slot->walk);
	if (begin_cell(&slot->cell, &w))
		exit_child(SAID);
	wrong = run_turns(slot, &w);
	if (wrong)
		report_failure(slot->full_name, "time", wrong_call(slot->cell.c, &w),
			       wrong_call(slot->cell.c, &w) == 1 ? w.first.ret : w.second.ret);
	end_cell(&slot->cell, &w);
	exit_child(wrong ? SAID : 0);
}

/* --- what processes have in common ------------------------------------- */

/* Memory that children have in common with their parent; null where there is none. */
static void *shared(long bytes)
{
	long at = syscall_raw(NR_mmap, 0, bytes, PROT_READ_WRITE, MAP_SHARED_ANONYMOUS, -1, 0);

	return (unsigned long)at > -4096ul ? 0 : (void *)at;
}

/* The next `bytes` at *at, up to the end of a cache line. */
static void *take_piece(long *at, long bytes)
{
	void *piece = (void *)*at;

	*at += (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	return piece;
}

/* A slot's pieces, in pages of its own. */
static void lay_out_slot(struct slot *slot, long *at)
{
	long turns = timing.turns, bins = timing.tails ? BINS : 0;

	slot->go = take_piece(at, LINE_BYTES);
	slot->is_ready = slot->go + 1;
	slot->windows = (long *)slot->go + 1;
	slot->values = take_piece(at, turns * timing.blocks * (long)sizeof(long));
	slot->empties = take_piece(at, turns * empties_a_turn(slot) * (long)sizeof(long));
	slot->counted =
		take_piece(at, turns * READINGS * MOST_COUNTERS * (long)sizeof(struct reading));
	slot->bins = take_piece(at, bins * (long)sizeof(long));
	slot->empty_bins = take_piece(at, bins * (long)sizeof(long));
	*at = (*at + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* All pieces from `at` on; how many bytes they are. */
static long lay_out(long at)
{
	long begin = at;

	turn_done = take_piece(&at, PAGE_BYTES);
	for (long i = 0; i < slots_used; i++)
		lay_out_slot(&slots[i], &at);
	return at - begin;
}

/* One mapping for all slots: a fork copies every one that there is.  0, or a negative errno. */
static long share_arena(void)
{
	arena_bytes = lay_out(0);
	arena = shared(arena_bytes);
	if (!arena)
		return -ENOMEM;
	lay_out((long)arena);
	return 0;
}

/*
 * What all walks read, as much as the longest: pages that are there before the first fork.  It is
 * shared, not private, because a fork copies no page tables of shared memory, and there are
 * forks of slots that do not walk.  Pages are small ones: MADV_NOHUGEPAGE precedes whatever
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled says, "force" too
 * (shmem_allowable_huge_orders(), mm/shmem.c), but only for pages that are not there yet.
 */
static long share_walked(void)
{
	walked_bytes = 0;
	for (long i = 0; i < slots_used; i++)
		walked_bytes = slots[i].walk > walked_bytes ? slots[i].walk : walked_bytes;
	if (!walked_bytes)
		return 0;
	walked = shared(walked_bytes);
	if (!walked)
		return -ENOMEM;
	SYS(madvise, walked, walked_bytes, MADV_NOHUGEPAGE, 0);
	for (long line = 0; line < walked_bytes; line += LINE_BYTES)
		walked[line] = 1;
	return 0;
}

/* Memory for all slots, or none of them is used. */
static void share_memory(void)
{
	long err = share_arena();

	if (!err)
		err = share_walked();
	if (err) {
		report_failure(slots[0].full_name, "memory", 0, err);
		slots_used = 0;
	}
}

/* --- the parent ------------------------------------------------------- */

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

/* --- what is said ----------------------------------------------------- */

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
	long calls = *slot->windows * timing.blocks * (slot->cell.state ? slot->state.calls : 1);

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
	long a_window = slot->cell.state ? slot->state.calls : 1;
	long windows = slot->walk == IN_BLOCKS && !timing.tails ? *slot->windows : 1;

	add_slot("process", group, number);
	add_word(slot->full_name);
	add(" calls=");
	add_plain(windows * a_window);
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

static void say_clocks(void)
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

static void say_timing(long cpu, long cpus, long step)
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

/* --- all of it -------------------------------------------------------- */

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

static void take_slots(const char *(*next)(const char *name))
{
	slots_used = 0;
	for (const char *name = next(0); name && slots_used < MOST_SLOTS; name = next(name)) {
		struct slot *slot = &slots[slots_used];
		const char *reason = "no such case";
		long err = 0, begins = 0;

		if (parse_slot(name, slot) == 0)
			reason = why_not(slot, &err);
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
		for (long i = 0; i < slots_used; i++)
			say_slot(done, i);
		say_clocks();
		done++;
	}
	return done;
}

long run_timed(const struct timing *wanted, const char *(*next)(const char *name))
{
	long cpus = cpus_allowed(), cpu = stay_on(wanted->cpu), done = 0;
	long step = clock_step();

	timing = *wanted;
	if (timing.block_ns < STEPS_A_BLOCK * step)
		timing.block_ns = STEPS_A_BLOCK * step;
	seed_random((unsigned long)timing.seed);
	say_timing(cpu, cpus, step);
	if (cpu >= 0 || timing.cpu < 0) {
		take_slots(next);
		if (slots_used)
			share_memory();
		done = run_groups(cpu);
	}
	return is_unsaid ? -1 : done;
}
