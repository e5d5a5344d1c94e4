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

/* The same numbers as kentry.vector.trace.Event. */
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
	EVENT_SEEN_SAVE = 35,
	EVENT_SEEN_SMALL_SAVE = 37,
};

#define NAME_LENGTH 16 /* TASK_COMM_LEN */

struct task {
	uint64_t address; /* of its task_struct; 0 once it is gone */
	uint32_t id;
	uint32_t svcr; /* as last recorded */
	char name[NAME_LENGTH];
	struct task *next; /* in the same slot of the table */
};

struct moment {
	uint64_t instructions, ns;
};

int events_open(const char *file);
void events_begin(struct moment now);
void events_record(struct moment now, const struct task *task, int event, int64_t argument);
void events_task(const struct task *task, int64_t parent, int32_t pid, int is_kernel);
/* Notes the name where it is another than before. */
void events_name(struct task *task, const char name[NAME_LENGTH]);
void events_close(struct moment now);

#endif
