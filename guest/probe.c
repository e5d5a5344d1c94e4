// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The probe: runs the cases, each window of a case between two marks.
 *
 * As PID 1 of a guest it mounts what the cases need and powers off at the end; as
 * an ordinary process it only runs the cases.  It says two things to two readers:
 *
 *   to the plugin, by marks (marks.h), lines of text:
 *	text HEX		where the running kernel says its _stext is
 *	case NAME PHASE USER [IRQS]	the windows that follow; USER is the number of user
 *				instructions in each of them, "?" where not known; IRQS that of
 *				the interrupts that belong to it, 0 where it is left out
 *	context N tasks=K links=L slept_ns=NS	what the next round finds (context.h)
 *	end N			N times a case ran to its end, in all rounds
 *   to the console, lines that begin with "kentry-probe":
 *	start | release TEXT | vector UNIT BITS | failed CASE phase=P call=K result=R |
 *	absent CASE reason | end cases=N
 *	register CASE NAME byte=B is=I filled=F promised=P	what check_registers() found (unit.h)
 *
 * With check=BLOCKS it runs that many blocks of each plain case after the rounds, and says on the console:
 *	counter NAME		the machine's own counter, or NAME result=R, a negative errno
 *	block CASE CALLS N EMPTY	it counted N in CALLS windows, EMPTY in as many without a call
 *
 * In time (the words "time" or "tails", timed.h) it says on the console, G S T the group, slot and turn:
 *	timing cpu=C cpus=N timer_ns=NS resolution_ns=NS block_ns=NS clock=vdso|syscall counters=NAME,...
 *	process G S CASE calls=K
 *	t G S T NS...		of K calls each, the blocks of a turn
 *	o G S T NS...		of as many loops, or readings, with no call in them
 *	c G S T CALLS NAME=VALUE-EMPTY...	what the cpu counted in the turn, NAME=VALUE-EMPTY/RUNNING/ENABLED
 *				where not all of the time; not of cases that fork, or wait for a task
 *	h G S NS COUNT		calls that took NS or more, to the next bin; e: readings with none
 *	clock MONOTONIC RAW BOOTTIME CPU | end groups=N
 *	failed NAME phase=fork|memory|turn call=0 result=R	a negative errno; of a turn: minus the
 *				signal that ended the process, or what it exited with
 * and exits with 1, without "end", where it could not write all of it.
 *
 * Arguments (after "--" on a kernel's command line): n=, paths= (windows a case in all rounds; 0
 * leaves that pass out), warmup= (windows before them, in every round), rounds=, links=, seed=
 * (contexts, context.h), check= and cases=NAME,NAME...; without cases= all those run that are in no group.  In time also groups=, turns=, blocks=, block_ns=, calls=, cpu=, seed=: timed.h.
 * A cases= that begins with "/" is a file with one name a line.
 */
#include "arch.h"
#include "clock.h"
#include "context.h"
#include "counters.h"
#include "facts.h"
#include "kernel.h"
#include "macros.h"
#include "random.h"
#include "run.h"
#include "state.h"
#include "system.h"
#include "text.h"
#include "timed.h"
#include "start.h"
#include "windows.h"

#define E2BIG 7
#define S_IFCHR 0020000

/* Of names that fit. */
#define MOST_CELLS 4096

struct options {
	long n, paths, warmup, rounds, links, check;
	const char *cases, *facts;
	int in_time;
	struct timing timing;
};

char probe_stack[PROBE_STACK] IN_PAGES;

extern const struct probe_case *const __start_kentry_cases[];
extern const struct probe_case *const __stop_kentry_cases[];

/* --- which cases ------------------------------------------------------ */

/* The names given, each a string, up to names_end. */
static char names[65536 + 1] IN_PAGES;
static const char *names_end = names;
static int names_given;

/* The next name after `name`, the first for null; null after the last. */
static const char *next_name(const char *name)
{
	if (!name)
		name = names;
	else
		while (*name++)
			;
	while (name < names_end && !*name)
		name++;
	return name < names_end ? name : 0;
}

/* How many bytes of names there are in `file`, or a negative errno. */
static long read_names(const char *file)
{
	long fd = SYS(openat, AT_FDCWD, file, O_RDONLY, 0);
	long got = fd, length = 0;

	if (fd < 0)
		return fd;
	while (length < (long)sizeof(names) &&
	       (got = SYS(read, fd, names + length, sizeof(names) - length, 0)) > 0)
		length += got;
	SYS(close, fd, 0, 0, 0);
	/* One byte more than fits, the last string's end, has been read: it is too long. */
	return got < 0 ? got : length == sizeof(names) ? -E2BIG : length;
}

static long copy_names(const char *text)
{
	long length = 0;

	while (text[length] && length < (long)sizeof(names) - 1) {
		names[length] = text[length];
		length++;
	}
	return length;
}

static void find_names(const char *cases)
{
	long length;

	names_given = cases != 0;
	if (!cases)
		return;
	length = *cases == '/' ? read_names(cases) : copy_names(cases);
	if (length < 0) {
		report_failure(cases, "names", 0, length);
		return;
	}
	names_end = names + length;
	for (long i = 0; i < length; i++)
		if (names[i] == ',' || names[i] == '\n')
			names[i] = 0;
	names[length] = 0;
}

/* Is `name` one of the names?  None given: every case is that is in no group. */
static int is_chosen(const struct probe_case *c, const char *name)
{
	if (c->needs_state)
		return 0;
	if (!names_given)
		return !*c->group;
	for (const char *given = next_name(0); given; given = next_name(given))
		if (same(given, name))
			return 1;
	return 0;
}

/* The case whose name is the `length` bytes at `name`. */
static const struct probe_case *find_case(const char *name, long length)
{
	for (const struct probe_case *const *c = __start_kentry_cases; c < __stop_kentry_cases;
	     c++) {
		const char *rest = after(name, (*c)->name);

		if (rest == name + length)
			return *c;
	}
	return 0;
}

static int find_cell(const char *name, long length, struct cell *cell)
{
	long base = 0;

	while (base < length && name[base] != '@')
		base++;
	for (unsigned long i = 0; i < ARRAY_SIZE(entries); i++) {
		const char *of_entry = base < length ? after(name + base + 1, entries[i].name) : 0;
		int native = base == length || !entries[i].compat;

		*cell = (struct cell){ find_case(name, native ? length : base), &entries[i], 0,
				       name };
		if (cell->c && (native || (of_entry == name + length && cell->c->compat_name)))
			return 1;
	}
	return 0;
}

/* --- running them ----------------------------------------------------- */

/*
 * An entry instruction the kernel was not built for kills its caller, so a child
 * tries it first: 0 if it lived, else the wait status; a negative errno where there is no child.
 */
static long entry_status(const struct entry *entry)
{
	long child = fork_child();

	if (child == 0) {
		struct work w = { .first = { .nr = NR32_getpid } };

		entry->bodies[SHAPE_ONE].marked(&w);
		exit_child(w.first.ret < 0);
	}
	return child < 0 ? child : wait_child(child);
}

static long takes_entry(const struct entry *entry)
{
	long status = entry_status(entry);

	return status < 0 ? status : status == 0;
}

/* Why a case cannot run here; null if it can. */
static const char *why_absent(const struct cell *cell, const struct pass *pass, int entry_ok)
{
	const struct probe_case *c = cell->c;

	if (!entry_ok && cell->entry->compat)
		return "the kernel does not take this entry instruction";
	if (c->shape == SHAPE_VDSO && !vdso_fn)
		return "no vDSO";
	if (c->changes >= CHANGES_MACHINE && SYS(getpid, 0, 0, 0, 0) != 1)
		return "it would change this machine for good";
	/* The counter is this task's, not that of a child. */
	if (pass->in_blocks && (cell->state || c->changes || c->shape >= SHAPES_SPELT))
		return "it is more than plain calls";
	return 0;
}

/* 1 if it was run to its end. */
static int run_or_report(const struct cell *cell, const struct pass *pass, int entry_ok)
{
	const char *reason = why_absent(cell, pass, entry_ok);

	if (reason) {
		report_absent(pass, cell->name, reason);
		return 0;
	}
	if (cell->state || cell->c->changes)
		return run_in_child(cell, pass) == 0;
	return run_cell(cell, pass) == 0;
}

/* The cells chosen, in the catalogue's order, then those in vector states as they were named. */
static struct cell cells[MOST_CELLS] IN_PAGES;
static struct state states[MOST_CELLS] IN_PAGES;
static long cell_count;

/* How many have each turn. */
static long turns[CHANGES_FORKED + 1];

/* When a case runs: CHANGES_NOTHING stands for the rounds of those that leave the machine as it is. */
static enum changes turn_of(const struct probe_case *c)
{
	return c->changes < CHANGES_MACHINE ? CHANGES_NOTHING : c->changes;
}

static void add_cell(struct cell cell)
{
	if (cell_count < MOST_CELLS)
		cells[cell_count++] = cell;
	turns[turn_of(cell.c)]++;
}

static void find_plain(const struct entry *entry)
{
	for (const struct probe_case *const *c = __start_kentry_cases; c < __stop_kentry_cases;
	     c++) {
		const char *name = entry->compat ? (*c)->compat_name : (*c)->name;

		if (name && is_chosen(*c, name))
			add_cell((struct cell){ *c, entry, 0, name });
	}
}

static void find_stateful(void)
{
	for (const char *name = next_name(0); name; name = next_name(name)) {
		const char *text = find_state(name);
		const struct probe_case *c = text ? find_case(name, text - name) : 0;
		struct state *state = &states[cell_count];

		if (!c || cell_count == MOST_CELLS || parse_state(text, state))
			continue;
		if (c->shape != SHAPE_MARKED ||
		    (c->needs_state ? state->use == USE_EACH && state->calls == 1
				    : state->use != USE_EACH))
			add_cell((struct cell){ c, &entries[0], state, name });
	}
}

/* One round, of the cases that have this turn; how many ran to their end. */
static long run_round(const struct pass *pass, const int *entry_ok, enum changes turn)
{
	long done = 0;

	for (long i = 0; i < cell_count && pass->times; i++) {
		const struct cell *cell = &cells[i];

		if (turn_of(cell->c) == turn)
			done += run_or_report(cell, pass, entry_ok[cell->entry - entries]);
	}
	return done;
}

/* The share of `times` windows that falls to round `round`; the shares add up. */
static long share(long times, const struct options *options, long round)
{
	return times / options->rounds + (round < times % options->rounds);
}

/* 0, or -1: says which counter of the machine's own counts, or why none does. */
static int start_own_counter(void)
{
	struct line line = console_line("counter ");
	long err = open_own_counter();

	put(&line, own_counter);
	put(&line, err ? " result=" : "");
	if (err)
		put_number(&line, err);
	say(&line);
	return err ? -1 : 0;
}

#define CHANGE_MODE(mark) __asm__ volatile(SETTLE_ASM MARK_ASM(mark)::: "memory", SETTLE_CLOBBERS)

/*
 * All cases are counted before the paths of any are recorded: each change of what is instrumented
 * makes QEMU translate everything anew.  So rounds that only record paths do without MARK_IDLE
 * between them.  Returns how many ran to their end.
 */
static long run_passes(const struct pass *count, const struct pass *path, const int *entry_ok,
		       enum changes turn)
{
	long counted = 0, recorded = 0;

	if (count->times) {
		CHANGE_MODE(MARK_COUNT);
		counted = run_round(count, entry_ok, turn);
	}
	if (path->times) {
		CHANGE_MODE(MARK_PATH);
		recorded = run_round(path, entry_ok, turn);
	}
	if (!count->times)
		return recorded;
	CHANGE_MODE(MARK_IDLE);
	return counted;
}

static long run_all(const struct options *options)
{
	struct context context = { 0 };
	const struct pass all = { "count", options->warmup, options->n, 0, 0, 0 };
	const struct pass all_paths = { "path", options->warmup, options->paths, options->n != 0, 0,
					0 };
	int entry_ok[ARRAY_SIZE(entries)];
	long done = 0;

	for (unsigned long i = 0; i < ARRAY_SIZE(entries); i++) {
		entry_ok[i] = !entries[i].compat || entry_status(&entries[i]) == 0;
		find_plain(&entries[i]);
	}
	find_stateful();
	seed_random((unsigned long)options->timing.seed);
	for (long round = 0; round < options->rounds; round++) {
		if (round)
			change_context(&context, options->links);
		const struct pass count = { "count",
					    options->warmup,
					    share(options->n, options, round),
					    round != 0,
					    0,
					    context.slept % REST_NS };
		const struct pass path = { "path",
					   options->warmup,
					   share(options->paths, options, round),
					   round != 0 || count.times,
					   0,
					   context.slept % REST_NS };

		send_context(&context);
		done += run_passes(&count, &path, entry_ok, CHANGES_NOTHING);
	}
	if (options->check && !start_own_counter()) {
		const struct pass check = { "check", options->warmup, options->check, 1, 1, 0 };

		CHANGE_MODE(MARK_COUNT);
		run_round(&check, entry_ok, CHANGES_NOTHING);
	}
	/* In the last context: no other case comes after them. */
	for (enum changes turn = CHANGES_MACHINE; turn <= CHANGES_FORKED; turn++)
		if (turns[turn])
			done += run_passes(&all, &all_paths, entry_ok, turn);
	CHANGE_MODE(MARK_IDLE);
	return done;
}

/* --- PID 1 ------------------------------------------------------------ */

/*
 * A lookup compares names of its own folder where they are in its hash chain, and how many devices
 * the kernel knows depends on the machine and the drivers: so /dev has those that any program may
 * open, in a file system of the probe's own.
 */
static void make_devices(void)
{
	static const struct {
		const char *path;
		long major, minor;
	} devices[] = {
		{ "/dev/console", 5, 1 }, { "/dev/full", 1, 7 },   { "/dev/null", 1, 3 },
		{ "/dev/ptmx", 5, 2 },	  { "/dev/random", 1, 8 }, { "/dev/tty", 5, 0 },
		{ "/dev/urandom", 1, 9 }, { "/dev/zero", 1, 5 },
	};

	SYS(mkdirat, AT_FDCWD, "/dev", 0755, 0);
	syscall_raw(NR_mount, (long)"dev", (long)"/dev", (long)"tmpfs", 0, 0, 0);
	for (unsigned long i = 0; i < ARRAY_SIZE(devices); i++)
		SYS(mknodat, AT_FDCWD, devices[i].path, S_IFCHR | 0666,
		    devices[i].major << 8 | devices[i].minor);
}

static void do_nothing(void)
{
}

static void prepare_pid1(void)
{
	long fd;

	make_devices();
	SYS(mkdirat, AT_FDCWD, "/proc", 0755, 0);
	SYS(mkdirat, AT_FDCWD, "/sys", 0755, 0);
	syscall_raw(NR_mount, (long)"proc", (long)"/proc", (long)"proc", 0, 0, 0);
	syscall_raw(NR_mount, (long)"sysfs", (long)"/sys", (long)"sysfs", 0, 0, 0);
	fd = SYS(openat, AT_FDCWD, "/dev/console", O_RDWR, 0);
	if (fd >= 0)
		for (long to = 0; to < 3; to++)
			SYS(dup3, fd, to, 0, 0);
	close_files();
	/*
	 * From a process's first thread on, the kernel has a table of futexes for it (6.16), and
	 * switches to it by another path: each case finds it so, whichever ran before.
	 */
	start_task(THREAD, do_nothing);
	join_thread();
}

/* The argument as one of the numbers that are named so. */
static void take_named(const char *argument, struct options *options)
{
	const struct {
		const char *name;
		long *value;
	} numbers[] = {
		{ "n=", &options->n },
		{ "paths=", &options->paths },
		{ "warmup=", &options->warmup },
		{ "rounds=", &options->rounds },
		{ "links=", &options->links },
		{ "check=", &options->check },
		{ "groups=", &options->timing.groups },
		{ "turns=", &options->timing.turns },
		{ "blocks=", &options->timing.blocks },
		{ "block_ns=", &options->timing.block_ns },
		{ "calls=", &options->timing.calls },
		{ "cpu=", &options->timing.cpu },
		{ "seed=", &options->timing.seed },
	};

	for (unsigned long i = 0; i < ARRAY_SIZE(numbers); i++)
		if (after(argument, numbers[i].name))
			take_number(after(argument, numbers[i].name), numbers[i].value);
}

static struct options parse_options(long argc, char **argv)
{
	struct options options = {
		.n = 1000,
		.paths = 128,
		.warmup = 16,
		.rounds = 1,
		.timing = { .groups = 1, .turns = 8, .blocks = 16, .block_ns = 50000, .cpu = -1 },
	};

	for (long i = 1; i < argc; i++) {
		take_named(argv[i], &options);
		options.timing.tails |= same(argv[i], "tails");
		options.in_time |= same(argv[i], "time") || same(argv[i], "tails");
		if (after(argv[i], "cases="))
			options.cases = argv[i] + 6;
		else if (after(argv[i], "facts="))
			options.facts = argv[i] + 6;
	}
	return options;
}

static const unsigned long *find_auxv(char **envp)
{
	while (*envp)
		envp++;
	return (const unsigned long *)(envp + 1);
}

static void report_end(long done)
{
	struct line message = { 0 };
	struct line line = console_line("end cases=");

	put(&message, "end ");
	put_number(&message, done);
	send(&message);
	put_number(&line, done);
	say(&line);
}

/* 0; 1 where something is missing of what was to be said. */
static int time_cases(const struct timing *timing)
{
	struct line line = console_line("end groups=");
	const struct cells cells_by_name = { next_name, find_cell, takes_entry };
	long done = run_timed(timing, &cells_by_name);

	if (done < 0)
		return 1;
	put_number(&line, done);
	say(&line);
	return 0;
}

/* Counts the cases, or times them; what to exit with. */
static int run_cases(const struct options *options, const unsigned long *auxv, int pid1)
{
	report_build_id();
	find_units(auxv);
	find_names(options->cases);
	send_text_address();
	if (pid1)
		sleep_for(SETTLE_NS);
	if (options->in_time)
		return time_cases(&options->timing);
	report_end(run_all(options));
	return 0;
}

/* Entered from _start with the stack the kernel made: argc, argv, environment, auxv. */
__attribute__((noreturn, used)) void probe_start(long *stack)
{
	long argc = stack[0];
	char **argv = (char **)(stack + 1);
	const unsigned long *auxv = find_auxv(argv + argc + 1);
	struct options options = parse_options(argc, argv);
	struct line line = console_line("start " ARCH_NAME);
	int pid1 = SYS(getpid, 0, 0, 0, 0) == 1, status = 0;

	vdso_fn = vdso_clock_gettime(auxv);
	find_clock(auxv);
	if (pid1)
		prepare_pid1();
	say(&line);
	report_release();
	if (options.cases || !options.facts)
		status = run_cases(&options, auxv, pid1);
	/* After the cases: files that were read could change what these do. */
	if (options.facts)
		facts(options.facts);
	if (pid1)
		power_off();
	SYS(exit, status, 0, 0, 0);
	__builtin_unreachable();
}
