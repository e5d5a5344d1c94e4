// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Times what vector state costs on the machine that it runs on: an ordinary process, or PID 1
 * of a guest, which powers off at the end.  It works nothing out; kentry vector costs does.
 *
 * Says on standard output, a line each:
 *	kentry-costs start ARCH bits=BITS cpu=CPU rounds=N calls=N
 *	kentry-costs release TEXT
 *	kentry-costs block NAME CALLS NS	NS for CALLS times NAME
 *	kentry-costs absent NAME REASON
 *	kentry-costs end blocks=N
 *
 * Names are MEASURE-USE, such as syscall-once.  Each block runs in a process of its own, since
 * a task may not get rid of having used a unit, and prints nothing while it is timed.  All
 * measures are taken in every round, one after the other, so that a drift is in all of them.
 *
 * Arguments: rounds=, calls= (of a block), vl= (bits), cpu= (to run on; the first allowed).
 */
#include "arch.h"
#include "clock.h"
#include "macros.h"
#include "system.h"
#include "text.h"
#include "vector.h"
#include "copies.h"
#include "start.h"

#define MAP_SHARED_ANONYMOUS 0x21

/* Before each timed loop: caches, branch predictors, the scheduler's first decisions. */
#define WARMUP 64
/* A round trip between two processes takes as long as so many system calls. */
#define CALLS_A_SWITCH 10
/* Blocks begin at different times after a tick of the timer's. */
#define STEP_NS 500000
#define STEPS 8
/* Forks and preemptions of a block. */
#define FEW 16
/* How often the waker of gap() wakes. */
#define WAKE_NS 200000

enum use_when { NEVER, ONCE, EACH };

struct measure {
	const char *name;
	enum use_when when;
	/* ns for `calls` of what it measures; negative: errno */
	long (*run)(const struct measure *measure, long calls);
	long divide; /* how many fewer calls than are asked for */
	void (*copy)(char *state);
};

char probe_stack[PROBE_STACK] __attribute__((aligned(4096), used));
static char state[16384] __attribute__((aligned(4096)));
static const struct unit *const unit = &units[0];
static long wanted_bits;

/* --- measures --------------------------------------------------------- */

static long time_syscalls(const struct measure *m, long calls)
{
	long start;

	for (long i = 0; i < WARMUP; i++)
		SYS(getppid, 0, 0, 0, 0);
	if (m->when == ONCE)
		unit->use();
	start = now();
	for (long i = 0; i < calls; i++) {
		if (m->when == EACH)
			unit->use();
		SYS(getppid, 0, 0, 0, 0);
	}
	return now() - start;
}

/* The uses alone, to be taken off what else has one in each call. */
static long time_uses(const struct measure *m, long calls)
{
	long start;

	(void)m;
	for (long i = 0; i < WARMUP; i++)
		unit->use();
	start = now();
	for (long i = 0; i < calls; i++)
		unit->use();
	return now() - start;
}

/* The instructions with which a kernel copies or clears the state, as a program can run them. */
static long time_copies(const struct measure *m, long calls)
{
	long start;

	unit->use();
	copies_save(state);
	for (long i = 0; i < WARMUP; i++)
		m->copy(state);
	start = now();
	for (long i = 0; i < calls; i++)
		m->copy(state);
	return now() - start;
}

/* The call and the loop around a copy. */
static __attribute__((noinline)) void copies_nothing(char *to)
{
	__asm__ volatile("" ::"r"(to) : "memory");
}

/* Not to preempt the one that woke it, so that both sides always wait: cases/pingpong.c. */
static void wait_politely(void)
{
	const int priority = 0;

	SYS(sched_setscheduler, 0, SCHED_BATCH, &priority, 0);
}

static void answer(const struct measure *m, int from, int to)
{
	char byte;

	if (m->when == ONCE)
		unit->use();
	while (SYS(read, from, &byte, 1, 0) == 1) {
		if (m->when == EACH)
			unit->use();
		SYS(write, to, &byte, 1, 0);
	}
	exit_child(0);
}

static void trips(const struct measure *m, int to, int from, long count)
{
	char byte = 0;

	for (long i = 0; i < count; i++) {
		if (m->when == EACH)
			unit->use();
		SYS(write, to, &byte, 1, 0);
		SYS(read, from, &byte, 1, 0);
	}
}

/* A byte to another process on the same cpu and back: two switches. */
static long time_trips(const struct measure *m, long calls)
{
	int there[2], back[2];
	long partner, start, took;

	if (SYS(pipe2, there, 0, 0, 0) || SYS(pipe2, back, 0, 0, 0))
		return -1;
	wait_politely();
	partner = fork_child();
	if (partner == 0) {
		SYS(close, there[1], 0, 0, 0);
		SYS(close, back[0], 0, 0, 0);
		answer(m, there[0], back[1]);
	}
	trips(m, there[1], back[0], WARMUP);
	if (m->when == ONCE)
		unit->use();
	start = now();
	trips(m, there[1], back[0], calls);
	took = now() - start;
	SYS(kill, partner, SIGKILL, 0, 0);
	wait_child(partner);
	return took;
}

/* What the first use of a new process takes longer than its second. */
static long first_use(void)
{
	long start, first, second;

	/* The clock's pages, and this function's, are a new process's own to fault in. */
	for (int i = 0; i < 4; i++)
		state[i] = (char)now();
	start = now();
	unit->use();
	first = now();
	unit->use();
	second = now();
	return (first - start) - (second - first);
}

static long time_first_uses(const struct measure *m, long calls)
{
	long sum = 0;

	(void)m;
	for (long i = 0; i < calls; i++) {
		int ends[2];
		long child, one = 0;

		if (SYS(pipe2, ends, 0, 0, 0))
			return -1;
		child = fork_child();
		if (child == 0) {
			one = first_use();
			SYS(write, ends[1], &one, sizeof(one), 0);
			exit_child(0);
		}
		if (wait_child(child) == 0)
			SYS(read, ends[0], &one, sizeof(one), 0);
		SYS(close, ends[0], 0, 0, 0);
		SYS(close, ends[1], 0, 0, 0);
		sum += one;
	}
	return sum;
}

static void wake_often(volatile long *wakes)
{
	for (;;) {
		sleep_for(WAKE_NS);
		++*wakes;
	}
}

/*
 * A spinning task's pause while another ran: an interrupt, and a switch there and back.  The
 * clock is read once more where it ended, since it may have come after the last reading.
 */
static long one_gap(const struct measure *m, volatile long *wakes)
{
	long seen = *wakes, last = now();

	for (;;) {
		long before = last;

		if (m->when == EACH)
			unit->use();
		last = now();
		if (*wakes != seen)
			return now() - before;
	}
}

/* As if all were as the middle one: what else happens in an interrupt makes some longer. */
static long time_gaps(const struct measure *m, long calls)
{
	volatile long *wakes = (volatile long *)syscall_raw(NR_mmap, 0, 4096, PROT_READ_WRITE,
							    MAP_SHARED_ANONYMOUS, -1, 0);
	long gaps[FEW], waker;

	if ((unsigned long)wakes > -4096ul)
		return (long)wakes;
	*wakes = 0;
	waker = fork_child();
	if (waker == 0)
		wake_often(wakes);
	for (int i = 0; i < 4; i++)
		one_gap(m, wakes);
	for (long i = 0; i < calls; i++) {
		long gap = one_gap(m, wakes), at = i;

		for (; at > 0 && gaps[at - 1] > gap; at--)
			gaps[at] = gaps[at - 1];
		gaps[at] = gap;
	}
	SYS(kill, waker, SIGKILL, 0, 0);
	wait_child(waker);
	return (gaps[(calls - 1) / 2] + gaps[calls / 2]) * calls / 2;
}

static const struct measure measures[] = {
	{ "syscall-never", NEVER, time_syscalls, 1, 0 },
	{ "syscall-once", ONCE, time_syscalls, 1, 0 },
	{ "syscall-each", EACH, time_syscalls, 1, 0 },
	{ "use", EACH, time_uses, 1, 0 },
	{ "trip-never", NEVER, time_trips, CALLS_A_SWITCH, 0 },
	{ "trip-once", ONCE, time_trips, CALLS_A_SWITCH, 0 },
	{ "trip-each", EACH, time_trips, CALLS_A_SWITCH, 0 },
	{ "first-use", EACH, time_first_uses, 0, 0 },
	{ "gap-never", NEVER, time_gaps, 0, 0 },
	{ "gap-each", EACH, time_gaps, 0, 0 },
	{ "copy-nothing", ONCE, time_copies, 1, copies_nothing },
	COPIES,
};

/* --- running them ----------------------------------------------------- */

static struct line costs_line(const char *text)
{
	struct line line = { 0 };

	put(&line, "kentry-costs ");
	put(&line, text);
	return line;
}

static void report_absent(const char *name, const char *reason)
{
	struct line line = costs_line("absent ");

	put(&line, name);
	put(&line, " ");
	put(&line, reason);
	say(&line);
}

static void in_child(const struct measure *m, long calls, int result)
{
	long ns = -1;

	if (wanted_bits && unit->set_bits)
		unit->set_bits(wanted_bits);
	ns = m->run(m, calls);
	SYS(write, result, &ns, sizeof(ns), 0);
	exit_child(0);
}

/* 1 if the block was measured. */
static int run_block(const struct measure *m, long calls)
{
	struct line line = costs_line("block ");
	int ends[2];
	long child, ns = -1;

	if (SYS(pipe2, ends, 0, 0, 0))
		return 0;
	child = fork_child();
	if (child == 0)
		in_child(m, calls, ends[1]);
	if (wait_child(child) == 0)
		SYS(read, ends[0], &ns, sizeof(ns), 0);
	SYS(close, ends[0], 0, 0, 0);
	SYS(close, ends[1], 0, 0, 0);
	/* Only a difference of two times may be less than none. */
	if (ns < 0 && m->run != time_first_uses) {
		report_absent(m->name, "it failed");
		return 0;
	}
	put(&line, m->name);
	put(&line, " ");
	put_number(&line, calls);
	put(&line, " ");
	put_number(&line, ns);
	say(&line);
	return 1;
}

/* The vector length that a task has, asked for in a child: asking may be a use. */
static long ask_bits(void)
{
	long bits = 0, child;
	int ends[2];

	if (SYS(pipe2, ends, 0, 0, 0))
		return 0;
	child = fork_child();
	if (child == 0) {
		if (wanted_bits && unit->set_bits)
			unit->set_bits(wanted_bits);
		bits = unit->bits();
		SYS(write, ends[1], &bits, sizeof(bits), 0);
		exit_child(0);
	}
	if (wait_child(child) == 0)
		SYS(read, ends[0], &bits, sizeof(bits), 0);
	SYS(close, ends[0], 0, 0, 0);
	SYS(close, ends[1], 0, 0, 0);
	return bits;
}

static void report_start(long bits, long cpu, long rounds, long calls)
{
	/* struct utsname: six fields of 65 bytes; release is the third. */
	static char names[6 * 65];
	struct line line = costs_line("start " ARCH_NAME " bits=");
	struct line release = costs_line("release ");

	put_number(&line, bits);
	put(&line, " cpu=");
	put_number(&line, cpu);
	put(&line, " rounds=");
	put_number(&line, rounds);
	put(&line, " calls=");
	put_number(&line, calls);
	say(&line);
	SYS(uname, names, 0, 0, 0);
	put(&release, names + 2 * 65);
	say(&release);
}

static long run_rounds(long rounds, long calls, long bits)
{
	long done = 0;

	for (long round = 0; round < rounds; round++)
		for (unsigned long i = 0; i < ARRAY_SIZE(measures); i++) {
			const struct measure *m = &measures[i];

			if (m->when != NEVER && !bits)
				continue;
			sleep_for((round % STEPS + 1) * STEP_NS);
			done += run_block(m, m->divide ? calls / m->divide : FEW);
		}
	return done;
}

/* Entered from _start with the stack the kernel made: argc, argv, environment, auxv. */
__attribute__((noreturn, used)) void probe_start(long *stack)
{
	long argc = stack[0], rounds = 30, calls = 2000, cpu = -1, bits, done;
	char **argv = (char **)(stack + 1), **envp = argv + argc + 1;
	const unsigned long *auxv;
	struct line line = costs_line("end blocks=");
	int pid1 = SYS(getpid, 0, 0, 0, 0) == 1;

	for (long i = 1; i < argc; i++) {
		if (after(argv[i], "rounds="))
			take_number(argv[i] + 7, &rounds);
		else if (after(argv[i], "calls="))
			take_number(argv[i] + 6, &calls);
		else if (after(argv[i], "vl="))
			take_number(argv[i] + 3, &wanted_bits);
		else if (after(argv[i], "cpu="))
			take_number(argv[i] + 4, &cpu);
	}
	while (*envp)
		envp++;
	auxv = (const unsigned long *)(envp + 1);
	find_clock(auxv);
	cpu = stay_on(cpu);
	bits = unit->is_there(auxv) ? ask_bits() : 0;
	report_start(bits, cpu, rounds, calls);
	if (!bits)
		report_absent("vec", "no-unit");
	if (pid1)
		sleep_for(SETTLE_NS);
	done = run_rounds(rounds, calls < CALLS_A_SWITCH ? CALLS_A_SWITCH : calls, bits);
	put_number(&line, done);
	say(&line);
	if (pid1)
		power_off();
	SYS(exit, 0, 0, 0, 0);
	__builtin_unreachable();
}
