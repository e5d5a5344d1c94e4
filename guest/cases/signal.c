/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static volatile long handled;

static void handler(int number)
{
	(void)number;
	handled = 1;
}

static long setup(struct work *w)
{
	w->first.args[0] = SYS(getpid, 0, 0, 0, 0);
	return handle_signal(SIGUSR1, handler);
}

static void run(struct work *w)
{
	handled = 0;
	w->first.ret = signal_this(w->first.args[0]);
	w->second.ret = handled;
}

CASE_VECTOR(signal, "signal", "kill of itself with a signal that it handles: kill, rt_sigreturn",
	    .shape = SHAPE_OWN, .want_first = 0, .want_second = 1, .setup = setup, .run = run);
