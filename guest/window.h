/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What runs between two marks: one or two system calls, and how they enter the kernel. */
#ifndef KENTRY_WINDOW_H
#define KENTRY_WINDOW_H

/* One system call of a window: its number and arguments, and what came back. */
struct call {
	long nr;
	long args[4];
	long ret;
};

struct state; /* unit.h */

struct work {
	struct call first, second;
	const struct state *state; /* null for a plain case */
};

enum shape {
	SHAPE_ONE,   /* one call */
	SHAPE_TWO,   /* two calls, the second with arguments of its own */
	SHAPE_CHAIN, /* two calls, the second's first argument is the first's result */
	SHAPES_SPELT,
	SHAPE_VDSO = SHAPES_SPELT, /* a call into the vDSO: its user side is not known in advance */
	SHAPE_OWN,		   /* the case's run(): nor is its */
	SHAPE_MARKED,		   /* the same, and it puts the marks itself; one use a window */
};

/*
 * What stands between the marks, and the same without marks; `user`: its instructions.  `skipped`
 * is `marked` with as many instructions around, and nothing between them.
 */
struct body {
	void (*marked)(struct work *);
	void (*bare)(struct work *); /* null where no state can be had */
	void (*skipped)(struct work *);
	int user;
};

/* How a window enters the kernel: the instruction, and whose numbers it takes. */
struct entry {
	const char *name;
	int compat; /* 1: the number comes from the 32-bit table */
	struct body bodies[SHAPES_SPELT];
};

/*
 * The probe's stack has a fixed place: which pages a task writes to after a fork is part of what
 * it costs, and the kernel's choice for a program's stack depends on its arguments.  Large
 * enough for a signal frame with the largest state, 64 KiB of ZA and 9 KiB of SVE.
 */
#define PROBE_STACK 0x40000
extern char probe_stack[PROBE_STACK];

#endif
