/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#ifdef ARCH_SA_RESTORER
void signal_return(void);
__asm__("signal_return:\n\t" ARCH_SIGNAL_RETURN);
#else
#define ARCH_SA_RESTORER 0
#define signal_return 0
#endif

static volatile long handled;

static void handler(int number)
{
	(void)number;
	handled = 1;
}

/* struct sigaction: riscv64's has no restorer, but then the mask, which is empty. */
static long setup(struct work *w)
{
	const long action[4] = { (long)handler, ARCH_SA_RESTORER, (long)signal_return, 0 };

	w->first.args[0] = SYS(getpid, 0, 0, 0, 0);
	return SYS(rt_sigaction, SIGUSR1, action, 0, sizeof(action[3]));
}

static void run(struct work *w)
{
	handled = 0;
	w->first.ret = SYS(kill, w->first.args[0], SIGUSR1, 0, 0);
	w->second.ret = handled;
}

CASE_VECTOR(signal, "signal", "kill of itself with a signal that it handles: kill, rt_sigreturn",
	    .shape = SHAPE_OWN, .want_first = 0, .want_second = 1, .setup = setup, .run = run);
