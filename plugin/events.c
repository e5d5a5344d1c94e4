// SPDX-License-Identifier: GPL-2.0-or-later
#include "events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct record {
	uint64_t instructions, ns;
	uint32_t task_and_event;
	int32_t argument;
};

static FILE *records, *tasks;
static uint64_t count;

int events_open(const char *file)
{
	char name[4096];

	if ((size_t)snprintf(name, sizeof(name), "%s.tasks", file) >= sizeof(name))
		return -1;
	records = fopen(file, "wb");
	tasks = fopen(name, "w");
	if (!records || !tasks)
		return -1;
	setvbuf(records, NULL, _IOFBF, 1 << 20);
	/* What was said of tasks is whole even where QEMU is killed. */
	setvbuf(tasks, NULL, _IOLBF, 0);
	return 0;
}

void events_begin(struct moment now)
{
	fprintf(tasks, "begin %" PRIu64 " %" PRIu64 "\n", now.instructions, now.ns);
}

void events_record(struct moment now, const struct task *task, int event, int64_t argument)
{
	struct record record = {
		.instructions = now.instructions,
		.ns = now.ns,
		.task_and_event = task->id << 8 | (uint32_t)event,
		.argument = argument > INT32_MAX ? INT32_MAX : (int32_t)argument,
	};

	count += fwrite(&record, sizeof(record), 1, records);
}

void events_task(const struct task *task, int64_t parent, int32_t pid)
{
	fprintf(tasks, "task %" PRIu32 " %" PRId64 " %" PRId32 " %d\n", task->id, parent, pid,
		task->is_kernel);
}

void events_name(const struct task *task)
{
	fprintf(tasks, "name %" PRIu32 " ", task->id);
	for (int i = 0; i < NAME_LENGTH && task->name[i]; i++)
		fprintf(tasks, "%02x", (unsigned char)task->name[i]);
	fputc('\n', tasks);
}

void events_close(struct moment now)
{
	if (fclose(records))
		fprintf(stderr, "kentry plugin: the trace could not be written\n");
	fprintf(tasks, "end %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", now.instructions, now.ns,
		count);
	fclose(tasks);
}
