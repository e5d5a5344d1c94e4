/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A case: what its windows run, and what the calls must return. */
#ifndef KENTRY_PROBE_CASE_H
#define KENTRY_PROBE_CASE_H

#include "window.h"

/* A system call as a case names it: its number in each table, its arguments. */
struct call_spec {
	long nr, compat_nr;
	long args[4];
};

/* `want` value that stands for "any result that is not an error". */
#define ANY_RESULT (-4096L)

/* What a setup changes that no finish can undo. */
enum changes {
	CHANGES_NOTHING,
	CHANGES_TASK,	 /* the case runs in a process of its own */
	CHANGES_MACHINE, /* also after all other cases, and only in a guest of kentry's */
	CHANGES_FORKED,	 /* the same, and what is forked later for good: after those, too */
};

struct probe_case {
	const char *name;
	const char *compat_name; /* by the other entry instruction; null where that cannot run it */
	const char *group; /* "": runs unless others are named; else only where it or the group is */
	int needs_state;   /* it is nothing without a use of a vector unit */
	int settles;	   /* what a window leaves to be done later is done before the next one */
	int realtime;	   /* it runs tasks of SCHED_FIFO */
	int interrupts;	   /* that belong to each window */
	enum changes changes;
	const char *needs; /* what a kernel may lack, "the kernel has no ..."; null: only the call */
	enum shape shape;
	struct call_spec first, second;
	long want_first, want_second;
	long (*setup)(struct work *);  /* 0, or a negative errno */
	void (*run)(struct work *);    /* SHAPE_OWN, SHAPE_MARKED: leaves both calls' results */
	void (*finish)(struct work *); /* after the windows of a setup that returned 0 */
};

#endif
