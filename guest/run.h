/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One case, run: its windows, whether they did what the case wants, and what is said of it. */
#ifndef KENTRY_RUN_H
#define KENTRY_RUN_H

#include "probe_case.h"
#include "unit.h"
#include "vdso.h"

/* A case, how it enters the kernel, and in which vector state (null: none). */
struct cell {
	const struct probe_case *c;
	const struct entry *entry;
	const struct state *state;
	const char *name;
};

/* RCU's callbacks and workers run meanwhile; a multiple of the kernels' ticks (CONFIG_HZ). */
#define REST_NS 20000000

/* All cases are run once a pass, each `warmup` and then `times` windows. */
struct pass {
	const char *phase;
	long warmup, times;
	int is_again;  /* what is absent has been said */
	int in_blocks; /* not in windows: `times` blocks, by the machine's own counter */
	long after;    /* a multiple of REST_NS, in ns, a case begins */
};

extern clock_gettime_fn vdso_fn; /* null where there is none */

void report_absent_cell(const char *name, const char *reason);
/* The same, once for all passes. */
void report_absent(const struct pass *pass, const char *name, const char *reason);
void report_failure(const char *name, const char *phase, long call, long result);

/* Every case finds the same descriptors free: which one openat gets is part of its path. */
void close_files(void);

/* What a case needs before its windows, and after them; 0, or a negative errno that was said. */
long begin_cell(const struct cell *cell, struct work *w);
void end_cell(const struct cell *cell, struct work *w);

/* The case's calls, without marks and without a use of a unit. */
void run_bare(const struct cell *cell, struct work *w);
/* 0 if both calls returned what the case wants, else the number of the one that did not. */
int wrong_call(const struct probe_case *c, const struct work *w);
/* Does its state have a use of the unit in every window? */
int uses_in_window(const struct cell *cell);

/* 0, or -1 when a call did not return what the case wants. */
int run_cell(const struct cell *cell, const struct pass *pass);

#endif
