/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Vector units, and how a task has used one. */
#ifndef KENTRY_UNIT_H
#define KENTRY_UNIT_H

/* A vector unit; arch/ARCH/vector.h has each architecture's. */
struct unit {
	const char *name;
	/* Is it there?  Must not use it. */
	int (*is_there)(const unsigned long *auxv);
	/* The smallest real use: it changes registers that are not the floating point's. */
	void (*use)(void);
	/* The vector length in bits, as it is; asking may be a use. */
	long (*bits)(void);
	/*
	 * Asks for another length, without a use: the bits that the task has now, or a negative
	 * errno.  Null where there is one length.
	 */
	long (*set_bits)(long bits);
};

enum use {
	USE_NEVER,
	USE_ONCE,  /* before the first window */
	USE_AFTER, /* the same, and then the task sleeps for a while */
	USE_EACH,  /* in every window, before `calls` repetitions of the case */
};

/* A vector state: how a task has used one of the units. */
struct state {
	const struct unit *unit;
	enum use use;
	long calls;
	long bits; /* wanted; 0: whichever the task has */
};

/* The use before the windows, if the state has one. */
void use_before_windows(const struct state *state);

#endif
