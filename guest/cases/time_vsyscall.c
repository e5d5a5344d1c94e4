/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#ifdef ARCH_VSYSCALL_TIME
typedef long (*time_fn)(long *);

static void run(struct work *w)
{
	w->first.ret = ((time_fn)ARCH_VSYSCALL_TIME)(0);
}

/* A kernel without the page kills its caller, so a child tries it first. */
static long setup(struct work *w)
{
	long child = fork_child();

	if (child == 0) {
		run(w);
		exit_child(0);
	}
	return child < 0 ? child : wait_child(child) ? -ENOENT : 0;
}

CASE_OF("entry", time_vsyscall, "time@vsyscall",
	"time() through the vsyscall page, which the kernel emulates", .needs = "vsyscall page",
	.shape = SHAPE_OWN, .want_first = ANY_RESULT, .want_second = 0, .setup = setup, .run = run);
#endif
