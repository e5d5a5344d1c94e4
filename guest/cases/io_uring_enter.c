/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define IORING_ENTER_GETEVENTS 1
#define IORING_SETUP_CQSIZE 8
#define IORING_OFF_SQES 0x10000000
#define MAP_SHARED 1
#define RING_BYTES 4096

/* struct io_uring_params: the two rings lie in one mapping since Linux 5.4. */
static struct {
	unsigned int submissions, completions, flags, words[7];
	unsigned int submission[10], completion[10]; /* offsets: head, tail ... */
} params;
enum { HEAD, TAIL };
static char *ring;
static long entries;

static long map_at(long fd, long offset)
{
	return syscall_raw(NR_mmap, 0, RING_BYTES, PROT_READ_WRITE, MAP_SHARED, fd, offset);
}

/* The one entry and its place in the ring are all zero: IORING_OP_NOP, the first. */
static long setup(struct work *w)
{
	long fd, at;

	/* Room for one completion, so that every call finds the ring in the same state. */
	params = (typeof(params)){ .completions = 1, .flags = IORING_SETUP_CQSIZE };
	fd = SYS(io_uring_setup, 1, &params, 0, 0);
	if (fd < 0)
		return fd;
	w->first.args[0] = fd;
	at = map_at(fd, 0);
	entries = map_at(fd, IORING_OFF_SQES);
	ring = (char *)at;
	return at < 0 ? at : entries < 0 ? entries : 0;
}

static void run(struct work *w)
{
	++*(volatile unsigned int *)(ring + params.submission[TAIL]);
	w->first.ret = syscall_raw(NR_io_uring_enter, w->first.args[0], 1, 1,
				   IORING_ENTER_GETEVENTS, 0, 0);
	++*(volatile unsigned int *)(ring + params.completion[HEAD]);
}

/* A worker takes the ring apart, in several steps. */
static void finish(struct work *w)
{
	SYS(munmap, ring, RING_BYTES, 0, 0);
	SYS(munmap, entries, RING_BYTES, 0, 0);
	SYS(close, w->first.args[0], 0, 0, 0);
	sleep_for(500000000);
}

CASE_OF("io", io_uring_enter, "io_uring_enter", "io_uring_enter of one no-op, and its completion",
	.needs = "io_uring", .shape = SHAPE_OWN, .want_first = 1, .want_second = 0, .setup = setup,
	.run = run, .finish = finish);
