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

#define AT_FDCWD -100
#define O_RDONLY 0
#define O_WRONLY 1
#define O_RDWR 2
#define SIGKILL 9
#define SIGUSR1 10
#define SIGCHLD 17

/* One system call of a window: its number and arguments, and what came back. */
struct call {
	long nr;
	long args[4];
	long ret;
};

struct work {
	struct call first, second;
	const struct state *state; /* null for a plain case */
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

enum shape {
	SHAPE_ONE,   /* one call */
	SHAPE_TWO,   /* two calls, the second with arguments of its own */
	SHAPE_CHAIN, /* two calls, the second's first argument is the first's result */
	SHAPES_SPELT,
	SHAPE_VDSO = SHAPES_SPELT, /* a call into the vDSO: its user side is not known in advance */
	SHAPE_OWN,		   /* the case's run(): nor is its */
	SHAPE_MARKED,		   /* the same, and it puts the marks itself; one use a window */
};

/* What stands between the marks, and the same without marks; `user`: its instructions. */
struct body {
	void (*marked)(struct work *);
	void (*bare)(struct work *); /* null where no state can be had */
	int user;
};

/* How a window enters the kernel: the instruction, and whose numbers it takes. */
struct entry {
	const char *name;
	int compat; /* 1: the number comes from the 32-bit table */
	struct body bodies[SHAPES_SPELT];
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
	const char *group; /* "": runs unless others are named; else only by its name */
	int native_only;   /* no other entry instruction can run it */
	int settles;	   /* what a window leaves to be done later is done before the next one */
	enum shape shape;
	struct call_spec first, second;
	long want_first, want_second;
	long (*setup)(struct work *);  /* 0, or a negative errno */
	void (*run)(struct work *);    /* SHAPE_OWN, SHAPE_MARKED: leaves both calls' results */
	void (*finish)(struct work *); /* after the windows of a setup that returned 0 */
};

/* A user buffer below 4 GiB (so int80 can name it), large enough for any struct stat. */
extern char buffer[4096];
/* One of whole pages, for what is copied in bulk. */
extern char pages[65536];

/*
 * The probe's stack has a fixed place: which pages a task writes to after a fork is part of what
 * it costs, and the kernel's choice for a program's stack depends on its arguments.  Large
 * enough for a signal frame with the largest state, 64 KiB of ZA and 9 KiB of SVE.
 */
#define PROBE_STACK 0x40000

long syscall_raw(long nr, long a, long b, long c, long d, long e, long f);
#define SYS(name, a, b, c, d) \
	syscall_raw(NR_##name, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* A child with a copy of this task's memory; 0 in the child, as fork(). */
long fork_child(void);
__attribute__((noreturn)) void exit_child(long status);
/* Its wait status; -1 where there is no such child. */
int wait_child(long child);

/* What the kernel says of the machine: the auxiliary vector, elf.h; 0 where it says nothing. */
#define AT_HWCAP 16
#define AT_HWCAP2 26
#define AT_SYSINFO_EHDR 33
unsigned long auxv_value(const unsigned long *auxv, unsigned long type);

/* For a case's setup: opens `path`, the first call's first argument is the descriptor. */
long open_for_first(struct work *w, const char *path, int flags);
/* The same for a file in memory with 64 KiB in it, which has been read often. */
long memory_file_for_first(struct work *w);

typedef long (*clock_gettime_fn)(long clock, void *timespec);
clock_gettime_fn vdso_clock_gettime(const unsigned long *auxv);

#endif
