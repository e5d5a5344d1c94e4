// SPDX-License-Identifier: GPL-2.0-or-later
/* The next context; context.h says what it consists of. */
#include "arch.h"
#include "context.h"
#include "macros.h"
#include "random.h"
#include "system.h"
#include "text.h"

#define S_IFIFO 0010000
#define FIFO "/kentry-fifo"
/* Of their own: a lookup compares the names of its own folder only, the others' it just passes. */
#define LINKS "/kentry-links"
/* Links are made before each eighth context: a case then has few counts, each in several contexts. */
#define CONTEXTS_A_BATCH 8
#define MOST_TASKS 64
/* A build with 0 tells what the tasks are good for, or the sleep (bench/contexts.py). */
#ifndef MOST_NEW_TASKS
#define MOST_NEW_TASKS 5
#endif
#ifndef MOST_SLEEP_NS
#define MOST_SLEEP_NS 999999999
#endif
/* What a task holds, enough to fill a slab or two; it frees one of sixteen, and takes some again. */
#define HELD 64
#define ONE_FREED_OF 16
#define MOST_TAKEN_AGAIN 3
/* Longer than a grace period of RCU, after which closed files are free. */
#define GRACE_NS 50000000

static long tasks[MOST_TASKS];

/* Each a file, and a socket whose connection nobody accepts. */
static void open_some(const struct unix_address *address, long more)
{
	while (more-- > 0) {
		SYS(openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);
		SYS(connect, SYS(socket, AF_UNIX, SOCK_STREAM, 0, 0), address, address->length, 0);
	}
}

/*
 * Sleeps in open() until it is killed: nobody opens the FIFO's other end.  What it frees before
 * lies one object to a slab; the next allocations empty the slab that was in use, and then take
 * those one by one.
 */
static __attribute__((noreturn)) void hold(void)
{
	unsigned long mapped = (unsigned long)map_pages(HELD * PAGE_BYTES);
	struct unix_address address;
	long listener = listen_unix(&address, HELD);

	open_some(&address, HELD / 2);
	/* Each second page is a mapping of its own. */
	for (unsigned long page = 0; page < HELD; page += 2)
		SYS(mprotect, mapped + page * PAGE_BYTES, PAGE_BYTES, PROT_READ, 0);
	for (unsigned long i = 0; i < HELD; i++) {
		if (random_below(ONE_FREED_OF))
			continue;
		SYS(close, listener + 1 + (long)i, 0, 0, 0);
		SYS(munmap, mapped + i * PAGE_BYTES, PAGE_BYTES, 0, 0);
	}
	sleep_for(GRACE_NS);
	open_some(&address, (long)random_below(MOST_TAKEN_AGAIN + 1));
	SYS(openat, AT_FDCWD, FIFO, O_RDONLY, 0);
	exit_child(0);
}

static void end_task(struct context *context)
{
	long which = (long)random_below((unsigned long)context->tasks);

	SYS(kill, tasks[which], SIGKILL, 0, 0);
	wait_child(tasks[which]);
	tasks[which] = tasks[--context->tasks];
}

static void begin_task(struct context *context)
{
	/* Drawn here, so that each task has other numbers. */
	unsigned long seed = random_below(~0ul);
	long child = fork_child();

	if (child == 0) {
		seed_random(seed);
		hold();
	}
	if (child > 0)
		tasks[context->tasks++] = child;
}

static void add_link(long number)
{
	struct line name = { 0 };

	put(&name, LINKS "/");
	put_number(&name, number);
	syscall_raw(NR_linkat, AT_FDCWD, (long)FIFO, AT_FDCWD, (long)name.text, 0, 0);
}

/*
 * Mappings are made below it: another place in each context.  There is a page table for it, whatever
 * ran before.
 */
static void add_page(void)
{
	long page = map_pages(PAGE_BYTES);

	if (page < 0)
		return;
	*(volatile char *)page = 1;
	/* A neighbour does not become one with it. */
	SYS(mprotect, page, PAGE_BYTES, PROT_NONE, 0);
}

void change_context(struct context *context, long links)
{
	long more = (long)random_below(MOST_NEW_TASKS + 1);
	long time = (long)random_below(MOST_SLEEP_NS + 1);

	if (context->number++ == 0) {
		SYS(mknodat, AT_FDCWD, FIFO, S_IFIFO | 0600, 0);
		SYS(mkdirat, AT_FDCWD, LINKS, 0700, 0);
	}
	add_page();
	if (context->tasks > 1 && random_below(2))
		end_task(context);
	while (more-- > 0 && context->tasks < MOST_TASKS)
		begin_task(context);
	while (context->number % CONTEXTS_A_BATCH == 0 && links-- > 0)
		add_link(context->links++);
	/* The tasks come to rest first. */
	sleep_for(2 * GRACE_NS);
	sleep_for(time);
	context->slept += 2 * GRACE_NS + time;
}

void send_context(const struct context *context)
{
	const struct {
		const char *name;
		long value;
	} numbers[] = {
		{ "context ", context->number },
		{ " tasks=", context->tasks },
		{ " links=", context->links },
		{ " slept_ns=", context->slept },
	};
	struct line message = { 0 };

	for (unsigned long i = 0; i < ARRAY_SIZE(numbers); i++) {
		put(&message, numbers[i].name);
		put_number(&message, numbers[i].value);
	}
	send(&message);
}
