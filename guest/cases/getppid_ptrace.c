/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define PTRACE_TRACEME 0
#define PTRACE_SYSCALL 24
#define PTRACE_SETOPTIONS 0x4200
#define PTRACE_O_TRACESYSGOOD 1
#define PTRACE_O_EXITKILL 0x100000
#define SIGSTOP 19
/* Wait statuses: stopped, and that by SIGTRAP | 0x80. */
#define STOPPED 0x7f
#define AT_SYSTEM_CALL 0x857f

static long traced;

/* To the traced task's next stop, at the entry of a system call or at its exit. */
static long next_stop(void)
{
	long err = SYS(ptrace, PTRACE_SYSCALL, traced, 0, 0);

	return err ? err : wait_child(traced);
}

static void run(struct work *w)
{
	w->first.ret = next_stop();
	w->second.ret = next_stop();
}

static void finish(struct work *w)
{
	(void)w;
	if (traced > 0)
		SYS(kill, traced, SIGKILL, 0, 0);
	wait_child(traced);
	set_policy(SCHED_OTHER);
}

/* 0 when the task has stopped at the exit of its kill(). */
static long trace(void)
{
	long err;

	if (traced < 0)
		return traced;
	if ((wait_child(traced) & 0xff) != STOPPED)
		return -EPERM;
	err = SYS(ptrace, PTRACE_SETOPTIONS, traced, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	return err ? err : next_stop() == AT_SYSTEM_CALL ? 0 : -EINVAL;
}

static long setup(struct work *w)
{
	long err;

	set_policy(SCHED_FIFO);
	traced = fork_child();
	if (traced == 0) {
		if (SYS(ptrace, PTRACE_TRACEME, 0, 0, 0))
			exit_child(1);
		SYS(kill, SYS(getpid, 0, 0, 0, 0), SIGSTOP, 0, 0);
		for (;;)
			SYS(getppid, 0, 0, 0, 0);
	}
	err = trace();
	if (err)
		finish(w);
	return err;
}

CASE_OF("entry", getppid_ptrace, "getppid-ptrace",
	"getppid of another process that ptrace stops at entry and exit: four switches",
	.settles = 1, .needs = "ptrace", .shape = SHAPE_OWN, .want_first = AT_SYSTEM_CALL,
	.want_second = AT_SYSTEM_CALL, .realtime = 1, .setup = setup, .run = run, .finish = finish);
