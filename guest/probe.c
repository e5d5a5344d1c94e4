// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The probe: runs the cases, each window of a case between two marks.
 *
 * As PID 1 of a guest it mounts what the cases need and powers off at the end; as
 * an ordinary process it only runs the cases.  It says two things to two readers:
 *
 *   to the plugin, by marks (marks.h), lines of text:
 *	text HEX		where the running kernel says its _stext is
 *	case NAME PHASE USER	the windows that follow; USER is the number of user
 *				instructions in each of them, "?" where not known
 *	end N			all N cases were run
 *   to the console, lines that begin with "kentry-probe":
 *	start | release TEXT | failed CASE phase=P call=K result=R | absent CASE reason |
 *	end cases=N
 *
 * Arguments (after "--" on a kernel's command line): n=, paths=, warmup= (windows a
 * case; 0 leaves that pass out) and cases=NAME,NAME...; without cases= all of them run.
 */
#include "probe.h"
#include "arch.h"
#include "numbers.h"
#include "windows.h"

#define AT_FDCWD -100
#define O_RDONLY 0
#define O_RDWR 2
#define SIGCHLD 17
#define LINUX_REBOOT_MAGIC1 0xfee1deadL
#define LINUX_REBOOT_MAGIC2 672274793L
#define LINUX_REBOOT_CMD_POWER_OFF 0x4321fedcL

/*
 * How long the guest is left alone before the first window, so that the workers
 * and grace periods of boot have run; under -icount this is virtual time.
 */
#define SETTLE_SECONDS 2

/* Descriptors a case may open, beside standard input, output and error. */
#define FIRST_FREE_FD 3
#define MOST_FDS 4

struct options {
	long n, paths, warmup;
	const char *cases;
};

char buffer[4096];

static clock_gettime_fn vdso_fn;

extern const struct probe_case *const __start_kentry_cases[];
extern const struct probe_case *const __stop_kentry_cases[];

long syscall_raw(long nr, long a, long b, long c, long d, long e, long f)
{
	return syscall6(nr, a, b, c, d, e, f);
}

long open_for_first(struct work *w, const char *path, int flags)
{
	long fd = SYS(openat, AT_FDCWD, path, flags, 0);

	w->first.args[0] = fd;
	return fd < 0 ? fd : 0;
}

/* --- text ------------------------------------------------------------- */

struct line {
	unsigned long length;
	char text[256];
};

static void put(struct line *line, const char *text)
{
	while (*text && line->length < sizeof(line->text) - 1)
		line->text[line->length++] = *text++;
}

static void put_number(struct line *line, long value)
{
	char digits[24];
	int i = sizeof(digits) - 1;
	unsigned long rest = value < 0 ? -(unsigned long)value : (unsigned long)value;

	digits[i] = 0;
	do {
		digits[--i] = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	if (value < 0)
		digits[--i] = '-';
	put(line, digits + i);
}

static void put_name(struct line *line, const struct probe_case *c, const struct entry *entry)
{
	put(line, c->name);
	if (entry->compat) {
		put(line, "@");
		put(line, entry->name);
	}
}

static void say(struct line *line)
{
	line->text[line->length++] = '\n';
	SYS(write, 1, line->text, line->length, 0);
}

static struct line console_line(const char *text)
{
	struct line line = { 0 };

	put(&line, "kentry-probe ");
	put(&line, text);
	return line;
}

static int starts_with(const char *text, const char *prefix)
{
	while (*prefix)
		if (*text++ != *prefix++)
			return 0;
	return 1;
}

static long parse_number(const char *text)
{
	long value = 0;

	while (*text >= '0' && *text <= '9')
		value = value * 10 + (*text++ - '0');
	return value;
}

/* --- speaking to the plugin ------------------------------------------- */

static void send_bit(int bit)
{
	if (bit)
		__asm__ volatile(MARK_ASM(MARK_BIT1)::: "memory");
	else
		__asm__ volatile(MARK_ASM(MARK_BIT0)::: "memory");
}

static void send(struct line *line)
{
	line->text[line->length++] = '\n';
	for (unsigned long i = 0; i < line->length; i++)
		for (int bit = 7; bit >= 0; bit--)
			send_bit(line->text[i] >> bit & 1);
}

/* --- one case --------------------------------------------------------- */

static int user_instructions(const struct probe_case *c)
{
	switch (c->shape) {
	case SHAPE_ONE:
		return USER_ONE;
	case SHAPE_TWO:
		return USER_TWO;
	case SHAPE_CHAIN:
		return USER_CHAIN;
	default:
		return -1;
	}
}

static void fill(struct call *call, const struct call_spec *spec, const struct entry *entry)
{
	call->nr = entry->compat ? spec->compat_nr : spec->nr;
	for (unsigned long i = 0; i < ARRAY_SIZE(call->args); i++)
		call->args[i] = spec->args[i];
	call->ret = 0;
}

static void window_vdso(struct work *w)
{
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	w->first.ret = vdso_fn(w->first.args[0], (void *)w->first.args[1]);
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
}

static void run_window(const struct probe_case *c, const struct entry *entry, struct work *w)
{
	switch (c->shape) {
	case SHAPE_ONE:
		entry->one(w);
		break;
	case SHAPE_TWO:
		entry->two(w);
		break;
	case SHAPE_CHAIN:
		entry->chain(w);
		break;
	case SHAPE_VDSO:
		window_vdso(w);
		break;
	}
}

static int as_wanted(long want, long got)
{
	return want == ANY_RESULT ? got >= 0 : got == want;
}

/* 0 if both calls returned what the case wants, else the number of the one that did not. */
static int wrong_call(const struct probe_case *c, const struct work *w)
{
	if (!as_wanted(c->want_first, w->first.ret))
		return 1;
	if ((c->shape == SHAPE_TWO || c->shape == SHAPE_CHAIN) &&
	    !as_wanted(c->want_second, w->second.ret))
		return 2;
	return 0;
}

static void report_failure(const struct probe_case *c, const struct entry *entry, const char *phase,
			   int call, long result)
{
	struct line line = console_line("failed ");

	put_name(&line, c, entry);
	put(&line, " phase=");
	put(&line, phase);
	put(&line, " call=");
	put_number(&line, call);
	put(&line, " result=");
	put_number(&line, result);
	say(&line);
}

static void announce(const struct probe_case *c, const struct entry *entry, const char *phase)
{
	struct line line = { 0 };

	put(&line, "case ");
	put_name(&line, c, entry);
	put(&line, " ");
	put(&line, phase);
	put(&line, " ");
	if (user_instructions(c) < 0)
		put(&line, "?");
	else
		put_number(&line, user_instructions(c));
	send(&line);
}

/* `times` windows; 0, or -1 when a call did not return what the case wants. */
static int run_phase(const struct probe_case *c, const struct entry *entry, struct work *w,
		     const char *phase, long times)
{
	announce(c, entry, phase);
	for (long i = 0; i < times; i++) {
		int wrong;

		run_window(c, entry, w);
		wrong = wrong_call(c, w);
		if (wrong) {
			report_failure(c, entry, phase, wrong,
				       wrong == 1 ? w->first.ret : w->second.ret);
			return -1;
		}
	}
	return 0;
}

/* Every case finds the same descriptors free: which one openat gets is part of its path. */
static void close_files(void)
{
	for (long fd = FIRST_FREE_FD; fd < FIRST_FREE_FD + MOST_FDS; fd++)
		SYS(close, fd, 0, 0, 0);
}

static int run_case(const struct probe_case *c, const struct entry *entry, const char *phase,
		    long warmup, long times)
{
	struct work w;
	long err;

	fill(&w.first, &c->first, entry);
	fill(&w.second, &c->second, entry);
	err = c->setup ? c->setup(&w) : 0;
	if (err)
		report_failure(c, entry, "setup", 0, err);
	else if (!run_phase(c, entry, &w, "warm", warmup))
		err = run_phase(c, entry, &w, phase, times);
	else
		err = -1;
	close_files();
	return err ? -1 : 0;
}

/* --- which cases ------------------------------------------------------ */

/* Is "name" or "name@entry" one of the comma-separated names?  None given: every one is. */
static int is_chosen(const struct probe_case *c, const struct entry *entry, const char *names)
{
	struct line name = { 0 };

	if (!names)
		return 1;
	put_name(&name, c, entry);
	name.text[name.length] = 0;
	while (*names) {
		if (starts_with(names, name.text) &&
		    (names[name.length] == ',' || !names[name.length]))
			return 1;
		while (*names && *names++ != ',')
			;
	}
	return 0;
}

/*
 * An entry instruction the kernel was not built for kills its caller, so a child
 * tries it first: 0 if it lived, else the wait status.
 */
static int entry_status(const struct entry *entry)
{
	int status = -1;
	long child = SYS(clone, SIGCHLD, 0, 0, 0);

	if (child == 0) {
		struct work w = { { .nr = NR32_getpid }, { 0 } };

		entry->one(&w);
		SYS(exit, w.first.ret < 0, 0, 0, 0);
	}
	if (child > 0)
		SYS(wait4, child, &status, 0, 0);
	return status;
}

static void report_absent(const struct probe_case *c, const struct entry *entry, const char *reason)
{
	struct line line = console_line("absent ");

	put_name(&line, c, entry);
	put(&line, " ");
	put(&line, reason);
	say(&line);
}

/* One pass over the catalogue; returns how many cases were run to their end. */
static long run_cases(const struct options *options, const struct entry *entry, const char *phase,
		      long times)
{
	long done = 0;

	for (const struct probe_case *const *c = __start_kentry_cases; c < __stop_kentry_cases;
	     c++) {
		if (entry->compat && (*c)->shape == SHAPE_VDSO)
			continue;
		if (!is_chosen(*c, entry, options->cases))
			continue;
		if ((*c)->shape == SHAPE_VDSO && !vdso_fn) {
			report_absent(*c, entry, "no vDSO");
			continue;
		}
		if (run_case(*c, entry, phase, options->warmup, times) == 0)
			done++;
	}
	return done;
}

static void report_entry_absent(const struct options *options, const struct entry *entry)
{
	for (const struct probe_case *const *c = __start_kentry_cases; c < __stop_kentry_cases; c++)
		if ((*c)->shape != SHAPE_VDSO && is_chosen(*c, entry, options->cases))
			report_absent(*c, entry, "the kernel does not take this entry instruction");
}

static long run_pass(const struct options *options, const char *phase, long times,
		     const int *entry_ok)
{
	long done = 0;

	for (unsigned long i = 0; i < ARRAY_SIZE(entries); i++)
		if (entry_ok[i])
			done += run_cases(options, &entries[i], phase, times);
	return done;
}

/*
 * All cases are counted before the paths of any are recorded: each change of what
 * is instrumented makes QEMU translate everything anew.
 */
static long run_all(const struct options *options)
{
	int entry_ok[ARRAY_SIZE(entries)];
	long done = 0;

	for (unsigned long i = 0; i < ARRAY_SIZE(entries); i++) {
		entry_ok[i] = !entries[i].compat || entry_status(&entries[i]) == 0;
		if (!entry_ok[i])
			report_entry_absent(options, &entries[i]);
	}
	if (options->n) {
		__asm__ volatile(MARK_ASM(MARK_COUNT)::: "memory");
		done = run_pass(options, "count", options->n, entry_ok);
	}
	if (options->paths) {
		__asm__ volatile(MARK_ASM(MARK_PATH)::: "memory");
		run_pass(options, "path", options->paths, entry_ok);
	}
	__asm__ volatile(MARK_ASM(MARK_IDLE)::: "memory");
	return done;
}

/* --- who is the kernel ------------------------------------------------ */

/*
 * Sends where /proc/kallsyms has _stext; says nothing where it cannot be read.  Not _text:
 * arm64 kernels before 6.2 have no such symbol.
 */
static void send_text_address(void)
{
	long fd = SYS(openat, AT_FDCWD, "/proc/kallsyms", O_RDONLY, 0);
	struct line row = { 0 };
	long got;

	if (fd < 0)
		return;
	while ((got = SYS(read, fd, buffer, sizeof(buffer), 0)) > 0) {
		for (long i = 0; i < got; i++) {
			if (buffer[i] != '\n') {
				if (row.length < sizeof(row.text) - 1)
					row.text[row.length++] = buffer[i];
				continue;
			}
			row.text[row.length] = 0;
			/* "ffff800080010000 T _stext": 16 digits, a type, the name. */
			if (row.length == 25 && starts_with(row.text + 19, "_stext")) {
				struct line message = { 0 };

				row.text[16] = 0;
				put(&message, "text ");
				put(&message, row.text);
				send(&message);
				got = 0;
				break;
			}
			row.length = 0;
		}
		if (!got)
			break;
	}
	SYS(close, fd, 0, 0, 0);
}

static void report_release(void)
{
	/* struct new_utsname: six fields of 65 bytes; release is the third. */
	struct line line = console_line("release ");

	if (SYS(uname, buffer, 0, 0, 0) == 0) {
		put(&line, buffer + 2 * 65);
		say(&line);
	}
}

/* /sys/kernel/notes begins with the GNU build ID note: 12 bytes, "GNU\0", the ID. */
static void report_build_id(void)
{
	static const char hex[] = "0123456789abcdef";
	long fd = SYS(openat, AT_FDCWD, "/sys/kernel/notes", O_RDONLY, 0);
	struct line line = console_line("notes ");
	long got;

	if (fd < 0)
		return;
	got = SYS(read, fd, buffer, 100, 0);
	for (long i = 0; i < got; i++) {
		char byte[3] = { hex[buffer[i] >> 4 & 15], hex[buffer[i] & 15], 0 };

		put(&line, byte);
	}
	if (got > 0)
		say(&line);
	SYS(close, fd, 0, 0, 0);
}

/* --- PID 1 ------------------------------------------------------------ */

static void prepare_pid1(void)
{
	long fd;

	SYS(mkdirat, AT_FDCWD, "/dev", 0755, 0);
	SYS(mkdirat, AT_FDCWD, "/proc", 0755, 0);
	SYS(mkdirat, AT_FDCWD, "/sys", 0755, 0);
	syscall_raw(NR_mount, (long)"dev", (long)"/dev", (long)"devtmpfs", 0, 0, 0);
	syscall_raw(NR_mount, (long)"proc", (long)"/proc", (long)"proc", 0, 0, 0);
	syscall_raw(NR_mount, (long)"sysfs", (long)"/sys", (long)"sysfs", 0, 0, 0);
	fd = SYS(openat, AT_FDCWD, "/dev/console", O_RDWR, 0);
	if (fd >= 0)
		for (long to = 0; to < 3; to++)
			SYS(dup3, fd, to, 0, 0);
	close_files();
}

static void settle(void)
{
	const long time[2] = { SETTLE_SECONDS, 0 };

	SYS(nanosleep, time, 0, 0, 0);
}

static void power_off(void)
{
	SYS(reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF, 0);
	/* No way to power off: sleep, and let the machine's owner end it. */
	for (;;)
		settle();
}

static struct options parse_options(long argc, char **argv)
{
	struct options options = { .n = 1000, .paths = 128, .warmup = 16 };

	for (long i = 1; i < argc; i++) {
		if (starts_with(argv[i], "n="))
			options.n = parse_number(argv[i] + 2);
		else if (starts_with(argv[i], "paths="))
			options.paths = parse_number(argv[i] + 6);
		else if (starts_with(argv[i], "warmup="))
			options.warmup = parse_number(argv[i] + 7);
		else if (starts_with(argv[i], "cases="))
			options.cases = argv[i] + 6;
	}
	return options;
}

static const unsigned long *find_auxv(char **envp)
{
	while (*envp)
		envp++;
	return (const unsigned long *)(envp + 1);
}

/* Entered from _start with the stack the kernel made: argc, argv, environment, auxv. */
__attribute__((noreturn, used)) void probe_start(long *stack)
{
	long argc = stack[0];
	char **argv = (char **)(stack + 1);
	struct options options = parse_options(argc, argv);
	struct line line;
	int pid1 = SYS(getpid, 0, 0, 0, 0) == 1;
	long done;

	vdso_fn = vdso_clock_gettime(find_auxv(argv + argc + 1));
	if (pid1)
		prepare_pid1();
	line = console_line("start " ARCH_NAME);
	say(&line);
	report_release();
	report_build_id();
	send_text_address();
	if (pid1)
		settle();
	done = run_all(&options);

	line = (struct line){ 0 };
	put(&line, "end ");
	put_number(&line, done);
	send(&line);
	line = console_line("end cases=");
	put_number(&line, done);
	say(&line);
	if (pid1)
		power_off();
	SYS(exit, 0, 0, 0, 0);
	__builtin_unreachable();
}
