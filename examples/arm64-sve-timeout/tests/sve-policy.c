// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * When a task may use SVE without a trap. That is policy, not ABI, and what this series changes:
 * these results differ with and without it. A signal frame shows it, as it has the SVE registers
 * of a task only if the kernel lets it use them.
 */

#include "sve.h"

#define SECOND_OVER 1300 /* ms */

static volatile int handled, live;

static void handler(int signal, siginfo_t *info, void *context)
{
	struct sve_context *sve = (void *)record(context, SVE_MAGIC);

	live = sve && sve->head.size > sizeof(*sve);
	handled = 1;
	(void)signal;
	(void)info;
}

/* Whether SVE is enabled. Makes no system call once the timer runs out. */
static bool enabled(void)
{
	while (!handled)
		;
	return live;
}

static void soon(long milliseconds)
{
	struct itimerval timer = { .it_value = { 0, milliseconds * 1000 } };

	handled = 0;
	timer.it_value.tv_sec = milliseconds / 1000;
	timer.it_value.tv_usec = milliseconds % 1000 * 1000;
	setitimer(ITIMER_REAL, &timer, NULL);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	struct timespec nap = { 0, 20000000 }, night = { 1, 300000000 };
	int vl;
	pid_t pid;

	setup();
	vl = prctl(PR_SVE_GET_VL) & PR_SVE_VL_LEN_MASK;
	sigaction(SIGALRM, &action, NULL);

	soon(20);
	use_sve();
	report(enabled(), "enabled by the first use", vl);

	soon(20);
	use_sve();
	syscall0(__NR_getppid);
	report(enabled(), "still enabled after a system call", vl);

	use_sve();
	spin(SECOND_OVER);
	soon(20);
	report(!enabled(), "disabled by a system call when the time is over", vl);

	use_sve();
	nanosleep(&night, NULL);
	soon(20);
	report(!enabled(), "disabled after a long sleep", vl);

	company = "with another";
	pid = rival(vl);
	use_sve();
	nanosleep(&nap, NULL);
	soon(10);
	report(enabled(), "still enabled after a short sleep", vl);

	use_sve();
	spin(SECOND_OVER);
	nanosleep(&nap, NULL);
	soon(10);
	report(!enabled(), "disabled after a short sleep when the time is over", vl);
	end(pid);
	return finish();
}
