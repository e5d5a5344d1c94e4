/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Vector units, and how a task has used one. */
#ifndef KENTRY_UNIT_H
#define KENTRY_UNIT_H

/* Some of a unit's registers, and what system calls promise of their bytes. */
struct registers {
	const char *name; /* without the number; null behind the last */
	long count;	  /* 0: as many as a vector has bytes */
	long part;	  /* a vector is this many times as long; 0: one byte each */
	int filled;	  /* with what fill() fills each; 0: with its number + 1 */
	long kept;	  /* this many bytes of each are as the program left them, */
	int rest;	  /* the others this, or 0 */
	long used;	  /* of these, the bytes that use() changes */
};

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
	/* A use that writes all registers, and no memory: more pages would change what a fork costs. */
	void (*fill)(void);
	/* The registers, one after the other, into `to`: at most PAGES_SIZE. */
	void (*save)(char *to);
	struct registers registers[4];
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
/*
 * Says on the console where the registers that fill() wrote do not hold what system calls promise.
 * `name`: of the case whose calls came after fill().
 */
void check_registers(const struct state *state, const char *name);

#endif
