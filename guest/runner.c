// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The runner: /init of a guest with a real userland.  It runs one workload between two marks,
 * MARK_TRACE_BEGIN and MARK_TRACE_END, says how it ended, and powers off.
 *
 * As PID 1 it reads WORKLOAD_FILE, strings that each end with a null byte.  The first is
 *
 *	run	the rest is the workload's argv: it is a child of the runner, its output goes to the
 *		console through the runner, and what it leaves running is not waited for
 *	exec	the rest is another init's argv, which the runner becomes right behind the mark; that
 *		calls the runner by its name when the workload has ended
 *
 * PREPARE_FILE, where there is one, is a shell script that runs before either.  By its name it
 * takes one of
 *
 *	mark		puts the end mark
 *	end STATUS	says that the workload ended with STATUS, and powers off; only where there is
 *			a WORKLOAD_FILE
 *
 * On the console, lines that begin with "kentry-workload":
 *	start | failed WHAT errno | cut BYTES | end STATUS
 * BYTES of output were left out there; what follows are its last ones.  STATUS is an exit code,
 * or 128 + the signal's number.
 */
#include "arch.h"
#include "macros.h"
#include "system.h"
#include "text.h"
#include "start.h"

#define WORKLOAD_FILE "/kentry/workload"
#define PREPARE_FILE "/kentry/prepare"

#define NR_chdir NR_OF(chdir, 49, 80, 12)
#define NR_execve NR_OF(execve, 221, 59, 11)
#define NR_faccessat NR_OF(faccessat, 48, 269, 307)
#define NR_fcntl NR_OF(fcntl, 25, 72, 55)
#define NR_ppoll NR_OF(ppoll, 73, 271, 309)
#define NR_rt_sigprocmask NR_OF(rt_sigprocmask, 135, 14, 175)
#define NR_setsid NR_OF(setsid, 157, 112, 66)
#define NR_signalfd4 NR_OF(signalfd4, 74, 289, 327)
#define NR_socket NR_OF(socket, 198, 41, 359)
#define NR_symlinkat NR_OF(symlinkat, 36, 266, 304)

#define AF_INET 2
#define SOCK_DGRAM 2
#define SIOCSIFFLAGS 0x8914
#define IFF_UP 1
#define TCSBRK 0x5409 /* with 1: tcdrain() */
#define EAGAIN 11
#define O_NONBLOCK 04000
#define O_CLOEXEC 02000000
#define F_SETFL 4
#define WNOHANG 1
#define POLLIN 1
#define SIG_BLOCK 0
#define SIG_UNBLOCK 1

#define MOST_WORDS 256
/* So much of the output goes to the console as it comes; after that, its last bytes do. */
#define LIVE_BYTES 65536
#define KEPT_BYTES 16384

#define NOT_RUN 127 /* what a shell says of a command that it cannot run */

char probe_stack[PROBE_STACK] __attribute__((aligned(4096), used));

/* --- the machine ------------------------------------------------------ */

static void failed(const char *what, long result)
{
	struct line line = { 0 };

	put(&line, "kentry-workload failed ");
	put(&line, what);
	put(&line, " ");
	put_number(&line, -result);
	say(&line);
}

static void say_value(const char *what, long value)
{
	struct line line = { 0 };

	put(&line, "kentry-workload ");
	put(&line, what);
	put_number(&line, value);
	say(&line);
}

__attribute__((noreturn)) static void finish(long status)
{
	say_value("end ", status);
	/* A power off does not wait for what a serial line has yet to send. */
	SYS(ioctl, 1, TCSBRK, 1, 0);
	power_off();
}

static void open_console(void)
{
	long fd = SYS(openat, AT_FDCWD, "/dev/console", O_RDWR, 0);

	if (fd < 0)
		return;
	for (long to = 0; to < 3; to++)
		if (to != fd)
			SYS(dup3, fd, to, 0, 0);
	if (fd > 2)
		SYS(close, fd, 0, 0, 0);
}

static void mount_at(const char *type, const char *where, const char *options)
{
	long result;

	SYS(mkdirat, AT_FDCWD, where, 0755, 0);
	result = syscall_raw(NR_mount, (long)type, (long)where, (long)type, 0, (long)options, 0);
	if (result < 0)
		failed(where, result);
}

/* What another init also finds mounted where it comes after an initramfs. */
static void mount_kernels(void)
{
	mount_at("devtmpfs", "/dev", 0);
	mount_at("proc", "/proc", 0);
	mount_at("sysfs", "/sys", 0);
}

static void mount_rest(void)
{
	mount_at("tmpfs", "/tmp", "mode=1777");
	mount_at("tmpfs", "/run", "mode=755");
	mount_at("tmpfs", "/dev/shm", "mode=1777");
	mount_at("devpts", "/dev/pts", "ptmxmode=666");
	SYS(symlinkat, "/proc/self/fd", AT_FDCWD, "/dev/fd", 0);
	SYS(symlinkat, "/proc/self/fd/0", AT_FDCWD, "/dev/stdin", 0);
	SYS(symlinkat, "/proc/self/fd/1", AT_FDCWD, "/dev/stdout", 0);
	SYS(symlinkat, "/proc/self/fd/2", AT_FDCWD, "/dev/stderr", 0);
}

/* struct ifreq of linux/if.h: a name, then here flags. */
static void bring_lo_up(void)
{
	struct {
		char name[16];
		short flags;
		char rest[22];
	} request = { "lo", IFF_UP, { 0 } };
	long fd = SYS(socket, AF_INET, SOCK_DGRAM, 0, 0);
	long result = fd < 0 ? fd : SYS(ioctl, fd, SIOCSIFFLAGS, &request, 0);

	if (result < 0)
		failed("lo", result);
	if (fd >= 0)
		SYS(close, fd, 0, 0, 0);
}

/* --- what to run ------------------------------------------------------ */

static char words_text[65536];
static char *words[MOST_WORDS + 1];

static char *const environment[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root",
	"LC_ALL=C",
	"TERM=dumb",
	0,
};

static void read_words(void)
{
	long fd = SYS(openat, AT_FDCWD, WORKLOAD_FILE, O_RDONLY, 0);
	long got = fd, length = 0, count = 0;

	if (fd < 0) {
		failed(WORKLOAD_FILE, fd);
		finish(NOT_RUN);
	}
	while (length < (long)sizeof(words_text) - 1 &&
	       (got = SYS(read, fd, words_text + length, sizeof(words_text) - 1 - length, 0)) > 0)
		length += got;
	SYS(close, fd, 0, 0, 0);
	for (long at = 0; at < length && count < MOST_WORDS; count++) {
		words[count] = words_text + at;
		while (words_text[at++])
			;
	}
	if (count < 2) {
		failed(WORKLOAD_FILE, got);
		finish(NOT_RUN);
	}
}

static long exit_status(int status)
{
	return status & 0x7f ? 128 + (status & 0x7f) : status >> 8 & 0xff;
}

/* With the console as its output; a script that fails ends it all. */
static void prepare(void)
{
	char *const argv[] = { "/bin/sh", PREPARE_FILE, 0 };
	long child, status;

	if (SYS(faccessat, AT_FDCWD, PREPARE_FILE, 0, 0) < 0)
		return;
	child = fork_child();
	if (child == 0) {
		SYS(chdir, "/root", 0, 0, 0);
		failed(argv[0], SYS(execve, argv[0], argv, environment, 0));
		exit_child(NOT_RUN);
	}
	status = exit_status(wait_child(child));
	if (status) {
		failed(PREPARE_FILE, -status);
		finish(status);
	}
}

/* --- its output ------------------------------------------------------- */

static long output_bytes;
static char kept[KEPT_BYTES];

static void write_all(const char *text, long length)
{
	while (length > 0) {
		long put_now = SYS(write, 1, text, length, 0);

		if (put_now <= 0)
			return;
		text += put_now;
		length -= put_now;
	}
}

static void keep(const char *text, long length)
{
	long live = LIVE_BYTES - output_bytes;

	if (live > 0)
		write_all(text, live < length ? live : length);
	for (long i = 0; i < length; i++)
		kept[(output_bytes + i) % KEPT_BYTES] = text[i];
	output_bytes += length;
}

/* What is in the pipe now; 0 once nobody can write to it any more. */
static int read_output(long fd)
{
	for (;;) {
		long got = SYS(read, fd, buffer, sizeof(buffer), 0);

		if (got <= 0)
			return got == -EAGAIN;
		keep(buffer, got);
	}
}

static void show_kept(void)
{
	long hidden = output_bytes - LIVE_BYTES;
	long shown = hidden < KEPT_BYTES ? hidden : KEPT_BYTES;
	long first = (output_bytes - shown) % KEPT_BYTES;

	if (hidden <= 0)
		return;
	write_all("\n", 1);
	say_value("cut ", hidden - shown);
	for (long i = 0; i < shown; i++)
		write_all(kept + (first + i) % KEPT_BYTES, 1);
}

/* --- running it ------------------------------------------------------- */

static const unsigned long child_signal = 1UL << (SIGCHLD - 1);

static void become_workload(int output)
{
	long null = SYS(openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);

	SYS(setsid, 0, 0, 0, 0);
	syscall_raw(NR_rt_sigprocmask, SIG_UNBLOCK, (long)&child_signal, 0, sizeof(child_signal), 0,
		    0);
	SYS(dup3, output, 1, 0, 0);
	SYS(dup3, output, 2, 0, 0);
	if (null > 0)
		SYS(dup3, null, 0, 0, 0);
	if (null > 2)
		SYS(close, null, 0, 0, 0);
	SYS(chdir, "/root", 0, 0, 0);
	failed(words[1], SYS(execve, words[1], words + 1, environment, 0));
	exit_child(NOT_RUN);
}

/* Takes leave of all children that have ended; the workload's wait status, -1 while it runs. */
static int reap(long workload)
{
	int status = -1, found = -1;
	long child;

	while ((child = SYS(wait4, -1, &status, WNOHANG, 0)) > 0)
		if (child == workload)
			found = status;
	return found;
}

static int watch(long workload, long output, long signals)
{
	struct {
		int fd;
		short events, revents;
	} polled[2] = { { (int)signals, POLLIN, 0 }, { (int)output, POLLIN, 0 } };
	int status;

	do {
		syscall_raw(NR_ppoll, (long)polled, ARRAY_SIZE(polled), 0, 0, 0, 0);
		if (polled[0].revents)
			SYS(read, signals, buffer, 128, 0); /* one struct signalfd_siginfo */
		status = reap(workload);
		if (polled[1].revents && status == -1 && !read_output(output))
			polled[1].fd = -1;
	} while (status == -1);
	return status;
}

static void run_workload(void)
{
	long signals, child;
	int pipe[2], status;

	syscall_raw(NR_rt_sigprocmask, SIG_BLOCK, (long)&child_signal, 0, sizeof(child_signal), 0,
		    0);
	signals = SYS(signalfd4, -1, &child_signal, sizeof(child_signal), O_CLOEXEC | O_NONBLOCK);
	SYS(pipe2, pipe, O_CLOEXEC, 0, 0);
	/* Of the reader's end only: the workload's own is as a shell would give it. */
	SYS(fcntl, pipe[0], F_SETFL, O_NONBLOCK, 0);
	__asm__ volatile(MARK_ASM(MARK_TRACE_BEGIN)::: "memory");
	child = fork_child();
	if (child == 0)
		become_workload(pipe[1]);
	SYS(close, pipe[1], 0, 0, 0);
	status = child < 0 ? (int)(NOT_RUN << 8) : watch(child, pipe[0], signals);
	__asm__ volatile(MARK_ASM(MARK_TRACE_END)::: "memory");
	read_output(pipe[0]);
	show_kept();
	finish(exit_status(status));
}

/* --- as PID 1, and by its name ---------------------------------------- */

static void be_init(void)
{
	struct line line = { 0 };

	open_console();
	read_words();
	mount_kernels();
	open_console();
	if (same(words[0], "run")) {
		mount_rest();
		bring_lo_up();
	}
	put(&line, "kentry-workload start");
	say(&line);
	prepare();
	sleep_for(SETTLE_NS);
	if (same(words[0], "run"))
		run_workload();
	__asm__ volatile(MARK_ASM(MARK_TRACE_BEGIN)::: "memory");
	failed(words[1], SYS(execve, words[1], words + 1, environment, 0));
	finish(NOT_RUN);
}

static long be_called(long argc, char **argv)
{
	long status;

	if (argc == 2 && same(argv[1], "mark")) {
		__asm__ volatile(MARK_ASM(MARK_TRACE_END)::: "memory");
		return 0;
	}
	/* Elsewhere than in a guest of ours there is nothing to power off. */
	if (SYS(faccessat, AT_FDCWD, WORKLOAD_FILE, 0, 0) < 0)
		return 2;
	if (argc == 3 && same(argv[1], "end") && take_number(argv[2], &status)) {
		open_console();
		finish(status);
	}
	return 2;
}

/* Entered from _start, as the probe. */
__attribute__((noreturn, used)) void probe_start(long *stack)
{
	if (SYS(getpid, 0, 0, 0, 0) == 1)
		be_init();
	exit_child(be_called(stack[0], (char **)(stack + 1)));
}
