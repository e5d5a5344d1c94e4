// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * When a task may use SVE without a trap. That is policy, not ABI, and what this series changes:
 * these results differ with and without it, and with another sve_keep= than KEEP. A signal frame
 * shows it, as it has the SVE registers of a task only if the kernel lets it use them.
 */

#include "../../arm64-sve-timeout/tests/sve.h"

#define KEEP 32 /* SVE_KEEP_CALLS */

static volatile int handled, live;

static void handler(int signal, siginfo_t *info, void *context)
{
	struct sve_context *sve = (void *)record(context, SVE_MAGIC);

	live = sve && sve->head.size > sizeof(*sve);
	handled = 1;
	(void)signal;
	(void)info;
}

/* A trap, with the timer running: no system call until it runs out that is not asked for. */
static void trap(void)
{
	struct itimerval timer = { .it_value = { 0, 50000 } };

	handled = 0;
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int i = 0; i <= KEEP; i++)
		syscall0(__NR_getppid);
	use_sve();
}

static void calls(int count, bool with_use)
{
	while (count--) {
		syscall0(__NR_getppid);
		if (with_use)
			use_sve();
	}
}

static bool enabled(void)
{
	while (!handled)
		;
	return live;
}

/* Each costs twice: the zeroing, and the load. */
static void naps(int count)
{
	struct timespec time = { 0, 1000000 };

	while (count--) {
		register long x8 asm("x8") = __NR_nanosleep;
		register long x0 asm("x0") = (long)&time;
		register long x1 asm("x1") = 0;

		asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
	}
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	int vl;
	pid_t pid;

	setup();
	vl = prctl(PR_SVE_GET_VL) & PR_SVE_VL_LEN_MASK;
	sigaction(SIGALRM, &action, NULL);

	trap();
	report(enabled(), "enabled by the first use", vl);

	trap();
	spin(20);
	calls(KEEP, false);
	report(enabled(), "still enabled when the credit is just spent", vl);

	trap();
	calls(KEEP + 1, false);
	report(!enabled(), "disabled by the first system call without credit", vl);

	trap();
	calls(KEEP, true);
	calls(1, false);
	report(!enabled(), "a use without a trap gives no credit", vl);

	trap();
	calls(KEEP + 1, true);
	report(enabled(), "a trap gives credit again", vl);

	company = "with another";
	pid = rival(vl);
	trap();
	naps(2);
	report(enabled(), "still enabled after two short sleeps", vl);
	end(pid);
	return finish();
}
