/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static volatile long handled;

static void handler(int number)
{
	(void)number;
	handled = 1;
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
}

static long setup(struct work *w)
{
	w->first.args[0] = SYS(getpid, 0, 0, 0, 0);
	return handle_signal(SIGUSR1, handler);
}

/* The signal comes before kill() returns, so that rt_sigreturn goes to just behind it. */
static void run(struct work *w)
{
	handled = 0;
	w->first.ret = signal_this(w->first.args[0]);
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
	w->second.ret = handled;
}

CASE_PART("process", sigreturn, "sigreturn", "rt_sigreturn from a handler that does nothing",
	  .want_first = 0, .want_second = 1, .setup = setup, .run = run);
