/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Contexts: what a case finds that no user would call the kernel.
 *
 * A boot runs the cases in rounds, each round in a context of its own.  The first context is the
 * machine as it booted.  Before each later one PID 1
 *	leaves tasks behind, each asleep in the open() of a FIFO: it holds a file's name, files, a
 *	stack and all else that a task has, so the allocators hand out other objects;
 *	ends some of those tasks, so that what is free lies in another order;
 *	links new names to a file: they join the hash chains of the dentry cache;
 *	sleeps a random time: clocks have other digits, timers another phase;
 *	and moves the user's buffers to another page.
 * The order of the cases is random too (probe.c).
 */
#ifndef KENTRY_CONTEXT_H
#define KENTRY_CONTEXT_H

/* A part that is left out, in a build that tells what it is good for (bench/contexts.py). */
enum { NOTHING, TASKS, SLEEP, PLACES, ORDER };
#ifndef WITHOUT
#define WITHOUT NOTHING
#endif

struct context {
	long number; /* 0: as booted */
	long tasks;  /* asleep now */
	long links;  /* names made since boot */
	long slept;  /* ns of the guest's time */
	long place;  /* bytes by which the user's buffers are moved */
};

/* Makes the next context of `context`; `links`: how many names it adds. */
void change_context(struct context *context, long links);
/* Tells the plugin. */
void send_context(const struct context *context);

#endif
