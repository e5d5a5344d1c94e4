/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tasks plugin's two files.  Read by kentry/vector/tracing.py.
 *
 * out=FILE: records of 24 bytes, little endian, in the order of events:
 *	u64	instructions dispatched since power on
 *	u64	nanoseconds of the guest's clock
 *	u32	task << 8 | event
 *	i32	the event's argument
 *
 * out=FILE.tasks: lines of text
 *	task ID PARENT PID KERNEL	ID counts from 0, the idle task; PARENT is -1 where the
 *					task was there before it was watched; KERNEL is 1 for
 *					a kernel thread
 *	name ID HEX			what the task calls itself from now on
 *	begin INSTRUCTIONS NS		when recording began
 *	end INSTRUCTIONS NS RECORDS	the last line: without it QEMU was killed
 */
#ifndef KENTRY_EVENTS_H
#define KENTRY_EVENTS_H

#include <stdint.h>

#include "accounts.h"

/* The same numbers as kentry.boot.task_hooks.Event. */
enum event {
	EVENT_SYSCALL = 1, /* ENTRY_SYSCALL, ENTRY_FAULT, ENTRY_INTERRUPT: tasks_isa.h */
	EVENT_EXIT = 4,
	EVENT_USE = 5,
	EVENT_USE_SME = 6,
	EVENT_SVCR = 7,
	EVENT_SWITCH_BLOCKED = 8,
	EVENT_SWITCH_PREEMPTED = 9,
	EVENT_FORK = 10,
	EVENT_EXEC = 11,
	EVENT_DIE = 12,
	EVENT_SEEN_SAVE = 35,
	EVENT_SEEN_SMALL_SAVE = 37,
};

#define NAME_LENGTH 16 /* TASK_COMM_LEN */

#define MOST_FRAMES 8

/* An entry into the kernel that has not returned yet, or what a task of the kernel does. */
struct frame {
	uint32_t kind;	  /* accounts.h */
	uint32_t back_to; /* the function that the handler returns to */
	enum part part;
	int counts;	  /* as a call that was begun while recording */
	uint64_t begin;	  /* instructions dispatched before its first */
	uint64_t address; /* of its first */
	uint64_t stack;	  /* x86: where the exception's frame lies */
	uint64_t instructions;
};

struct task {
	uint64_t address; /* of its task_struct */
	uint32_t id;
	uint32_t svcr;	  /* as last recorded */
	uint32_t program; /* accounts.h */
	int is_introduced, is_kernel, ours, began, dying, renamed;
	char name[NAME_LENGTH];
	int depth;
	struct frame frames[MOST_FRAMES];
	struct task *next; /* in the same slot of the table */
};

struct moment {
	uint64_t instructions, ns;
};

int events_open(const char *file);
void events_begin(struct moment now);
void events_record(struct moment now, const struct task *task, int event, int64_t argument);
void events_task(const struct task *task, int64_t parent, int32_t pid);
void events_name(const struct task *task);
void events_close(struct moment now);

#endif
