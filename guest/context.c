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
#define MOST_NEW_FILES 3

static long tasks[MOST_TASKS];

/* Sleeps in open() until it is killed: nobody opens the FIFO's other end. */
static __attribute__((noreturn)) void hold(long files)
{
	for (long i = 0; i < files; i++)
		SYS(openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);
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
	long files = (long)random_below(MOST_NEW_FILES + 1), child = fork_child();

	if (child == 0)
		hold(files);
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

void change_context(struct context *context, long links)
{
	long more = (long)random_below(MOST_NEW_TASKS + 1);
	const long time[2] = { 0, (long)random_below(MOST_SLEEP_NS + 1) };

	if (context->number++ == 0) {
		SYS(mknodat, AT_FDCWD, FIFO, S_IFIFO | 0600, 0);
		SYS(mkdirat, AT_FDCWD, LINKS, 0700, 0);
	}
	if (context->tasks > 1 && random_below(2))
		end_task(context);
	while (more-- > 0 && context->tasks < MOST_TASKS)
		begin_task(context);
	while (context->number % CONTEXTS_A_BATCH == 0 && links-- > 0)
		add_link(context->links++);
	SYS(nanosleep, time, 0, 0, 0);
	context->slept += time[1];
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
