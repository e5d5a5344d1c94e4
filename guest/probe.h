/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the probe, its cases and its architectures share.  No libc: every kernel
 * entry in this program is one that this program spells out.
 */
#ifndef KENTRY_PROBE_H
#define KENTRY_PROBE_H

#define STR_(x) #x
#define STR(x) STR_(x)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* One system call of a window: its number and arguments, and what came back. */
struct call {
	long nr;
	long args[4];
	long ret;
};

struct work {
	struct call first, second;
};

/* How a window enters the kernel: the instruction, and whose numbers it takes. */
struct entry {
	const char *name;
	int compat; /* 1: the number comes from the 32-bit table */
	void (*one)(struct work *);
	void (*two)(struct work *);
	void (*chain)(struct work *);
};

enum shape {
	SHAPE_ONE,   /* one call */
	SHAPE_TWO,   /* two calls, the second with arguments of its own */
	SHAPE_CHAIN, /* two calls, the second's first argument is the first's result */
	SHAPE_VDSO,  /* a call into the vDSO: its user side is not known in advance */
};

/* A system call as a case names it: its number in each table, its arguments. */
struct call_spec {
	long nr, compat_nr;
	long args[4];
};

/* `want` value that stands for "any result that is not an error". */
#define ANY_RESULT (-4096L)

struct probe_case {
	const char *name;
	enum shape shape;
	struct call_spec first, second;
	long want_first, want_second;
	long (*setup)(struct work *); /* 0, or a negative errno */
};

/* A user buffer below 4 GiB (so int80 can name it), large enough for any struct stat. */
extern char buffer[4096];

long syscall_raw(long nr, long a, long b, long c, long d, long e, long f);
#define SYS(name, a, b, c, d) \
	syscall_raw(NR_##name, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* For a case's setup: opens `path`, the first call's first argument is the descriptor. */
long open_for_first(struct work *w, const char *path, int flags);

typedef long (*clock_gettime_fn)(long clock, void *timespec);
clock_gettime_fn vdso_clock_gettime(const unsigned long *auxv);

#endif
