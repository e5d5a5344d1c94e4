/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

/*
 * The new shadow stack has none of the functions that are being run, so no function returns that
 * began before it, and a task has one in its life: each window has a task of its own.
 */
static __attribute__((noinline)) long run_child(void)
{
	long child = fork_child();

	if (child == 0) {
		if (enable_shadow_stack())
			exit_child(1);
		__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
		syscall6(NR_getppid, 0, 0, 0, 0, 0, 0);
		__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
		exit_child(0);
	}
	return wait_child(child);
}

static void run(struct work *w)
{
	w->first.ret = run_child();
}

static long setup(struct work *w)
{
	long child = fork_child();

	(void)w;
	if (child == 0)
		exit_child(enable_shadow_stack() != 0);
	return child < 0 ? child : wait_child(child) ? -ENODEV : 0;
}

CASE_PART("work", getppid_shadow_stack, "getppid-shadow-stack",
	  "getppid of a new task with a shadow stack: GCS, Zicfiss, CET",
	  .needs = "shadow stacks on this processor", .want_first = 0, .want_second = 0,
	  .setup = setup, .run = run);
