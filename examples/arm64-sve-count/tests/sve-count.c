// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is in the SVE registers after the system call that is the last one a task has credit for,
 * after the one that is the first without, and after all others near them, with other tasks in
 * between. For a sve_keep= of up to MOST.
 */

#include "../../arm64-sve-timeout/tests/sve.h"

#define MOST 36

static struct regs in, out;
static volatile int handled;
static int vl;

static void handler(int signal)
{
	static struct regs ones, after;

	memset(&ones, 0xff, sizeof(ones));
	sve_call(&ones, &after, __NR_getppid, 0, 0, 0);
	handled = 1;
	(void)signal;
}

/* The task took a trap, and made `calls` system calls since. */
static void spend(int calls)
{
	for (int i = 0; i <= MOST; i++)
		syscall0(__NR_getppid);
	use_sve();
	while (calls--)
		syscall0(__NR_getppid);
}

static bool after_call(int calls, long number, long a, long b)
{
	fill(&in, vl, calls);
	memset(&out, 0xaa, sizeof(out));
	spend(calls);
	sve_call(&in, &out, number, a, b, 0);
	return only_v(&in, vl, &out, vl);
}

static bool after_nap(int calls)
{
	struct timespec time = { 0, 1500000 };

	return after_call(calls, __NR_nanosleep, (long)&time, 0);
}

static bool after_signal(int calls)
{
	return after_call(calls, __NR_kill, getpid(), SIGUSR1);
}

static bool after_clone(int calls)
{
	int status = -1;
	bool good = after_call(calls, __NR_clone, SIGCHLD, 0);

	if (!out.result)
		_exit(!good);
	waitpid(out.result, &status, 0);
	return good && status == 0;
}

/* All is kept by an interrupt, and by a signal in user mode, whatever credit there is. */
static bool after_interrupt(int calls)
{
	struct itimerval timer = { .it_value = { 0, 3000 } };

	fill(&in, vl, calls);
	memset(&out, 0xaa, sizeof(out));
	handled = 0;
	setitimer(ITIMER_REAL, &timer, NULL);
	spend(calls);
	sve_wait(&in, &out, &handled);
	return everything(&in, vl, &out);
}

static bool after_two(int calls)
{
	return after_call(calls, __NR_getppid, 0, 0) && after_call(0, __NR_sched_yield, 0, 0);
}

static void each(const char *what, bool (*test)(int calls))
{
	bool good = true;

	for (int calls = 0; calls <= MOST; calls++)
		good = test(calls) && good;
	report(good, what, vl);
}

static void all(void)
{
	each("a system call", after_two);
	each("a short sleep", after_nap);
	each("a signal to itself", after_signal);
	each("clone, and in the child", after_clone);
	each("an interrupting signal keeps all", after_interrupt);
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
		for (int i = 0; i < count; i += count > 1 ? count - 1 : 1) {
			int its[] = { 0, vls[i], vls[0], vls[count - 1] };
			pid_t pid = with ? rival(its[with]) : 0;

			vl = vls[i];
			set_vl(vl);
			all();
			if (pid)
				end(pid);
		}
	}
	return finish();
}
