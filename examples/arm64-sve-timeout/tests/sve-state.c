// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is in the SVE registers after a system call, a signal and a fork, with other tasks in
 * between, and before and after the kernel wants another SVE access trap.
 */

#include "sve.h"

#define SECOND_OVER 1300 /* ms */

static struct regs in, out;
static volatile int handled;
static bool slow_handler;
static int vl;

static void handler(int signal)
{
	static struct regs ones, after;

	memset(&ones, 0xff, sizeof(ones));
	sve_call(&ones, &after, __NR_getppid, 0, 0, 0);
	if (slow_handler) {
		use_sve();
		spin(SECOND_OVER);
		syscall0(__NR_getppid);
	}
	handled = 1;
	(void)signal;
}

static void alarm_in(long microseconds)
{
	struct itimerval timer = { .it_value = { 0, microseconds } };

	handled = 0;
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void call(const char *what, long number, long a, long b)
{
	static int seed;

	fill(&in, vl, ++seed);
	memset(&out, 0xaa, sizeof(out));
	sve_call(&in, &out, number, a, b, 0);
	report(only_v(&in, vl, &out, vl), what, vl);
}

static void nap(const char *what, long milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	call(what, __NR_nanosleep, (long)&time, 0);
}

/* TIF_SVE is set, and the last trap is long ago. */
static void wait_long(void)
{
	use_sve();
	spin(SECOND_OVER);
}

static void forks(const char *parents, const char *childs)
{
	int status = -1;

	fill(&in, vl, 99);
	memset(&out, 0xaa, sizeof(out));
	sve_call(&in, &out, __NR_clone, SIGCHLD, 0, 0);
	if (!out.result)
		_exit(!only_v(&in, vl, &out, vl));
	report(only_v(&in, vl, &out, vl), parents, vl);
	waitpid(out.result, &status, 0);
	report(status == 0, childs, vl);
}

static void interrupted(const char *what, bool slow)
{
	slow_handler = slow;
	fill(&in, vl, 77);
	memset(&out, 0xaa, sizeof(out));
	alarm_in(3000);
	sve_wait(&in, &out, &handled);
	report(everything(&in, vl, &out), what, vl);
	slow_handler = false;
}

static void quick(void)
{
	call("a system call", __NR_getppid, 0, 0);
	call("another system call", __NR_getppid, 0, 0);
	call("sched_yield", __NR_sched_yield, 0, 0);
	nap("a short sleep", 20);
	nap("a sleep right after", 5);
	call("a signal to itself", __NR_kill, getpid(), SIGUSR1);
	forks("the parent after clone", "the child after clone");
	interrupted("an interrupting signal keeps all", false);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(1, &set);
		fill(&in, vl, 55);
		sve_call(&in, &out, __NR_sched_setaffinity, 0, sizeof(set), (long)&set);
		report(only_v(&in, vl, &out, vl), "a move to another CPU", vl);
		pin(0);
	}
}

static void late(void)
{
	wait_long();
	call("a system call when the time is over", __NR_getppid, 0, 0);
	call("the system call after that", __NR_getppid, 0, 0);
	wait_long();
	nap("a short sleep when the time is over", 20);
	wait_long();
	call("a signal to itself when the time is over", __NR_kill, getpid(), SIGUSR1);
	wait_long();
	forks("the parent after clone, late", "the child after clone, late");
	nap("a long sleep", SECOND_OVER);
	interrupted("a handler that takes long keeps all", true);
	interrupted("an interrupting signal keeps all, after that", false);
}

int main(void)
{
	static const char *const companies[] = {
		"alone", "with one of the same VL", "with one of the smallest", "with one of the largest"
	};
	int vls[VL_MAX / 16], count = 0;

	setup();
	signal(SIGUSR1, handler);
	signal(SIGALRM, handler);
	for (int one = 16; one <= VL_MAX; one += 16)
		if (set_vl(one))
			vls[count++] = one;
	for (int with = 0; with < 4; with++) {
		company = companies[with];
		for (int i = 0; i < count; i++) {
			int its[] = { 0, vls[i], vls[0], vls[count - 1] };
			pid_t pid = with ? rival(its[with]) : 0;

			vl = vls[i];
			set_vl(vl);
			quick();
			if ((with == 0 || with == 3) && (i == 0 || i == count - 1))
				late();
			if (pid)
				end(pid);
		}
	}
	return finish();
}
