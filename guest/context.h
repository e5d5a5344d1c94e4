/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Contexts: what a case finds that no user would call the kernel.
 *
 * A boot runs the cases in rounds, each round in a context of its own.  The first context is the
 * machine as it booted.  Before each later one PID 1
 *	leaves tasks behind, each asleep in the open() of a FIFO, with files, sockets and mappings of
 *	which it freed a few: slabs are left with one object free in each, and a case that takes two
 *	at a time has to fetch another slab;
 *	ends some of those tasks, so that what is free lies in another order;
 *	maps a page, so that later mappings begin at another one of those that a kernel folds;
 *	links new names to a file, in every eighth: they join the hash chains of the dentry cache;
 *	and sleeps a random time: clocks have other digits, timers another phase.
 */
#ifndef KENTRY_CONTEXT_H
#define KENTRY_CONTEXT_H

struct context {
	long number; /* 0: as booted */
	long tasks;  /* asleep now */
	long links;  /* names made since boot */
	long slept;  /* ns of the guest's time */
};

/* Makes the next context of `context`; `links`: how many names an eighth one adds. */
void change_context(struct context *context, long links);
/* Tells the plugin. */
void send_context(const struct context *context);

#endif
