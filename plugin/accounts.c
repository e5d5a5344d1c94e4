// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE /* fallocate() */
#include "accounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LENGTH 16
#define MOST_PROGRAMS 1024
/* Values that are told apart: 24 MB.  Beyond, they have KEPT_BITS significant ones. */
#define VALUES (1u << 20)
#define KEPT_BITS 7
/* Of the run; where there are more, two become one. */
#define SLICES 256
/* More than a file has: a million values with 20 characters each, and functions. */
#define FILE_BYTES (32 << 20)

struct value {
	uint32_t kind;
	uint64_t instructions, times;
};

struct program {
	char name[NAME_LENGTH];
	uint64_t tasks, user;
	struct {
		uint64_t calls, instructions;
	} * of; /* by kind */
};

static struct kind kinds[MOST_KINDS];
static uint32_t n_kinds, n_functions, n_programs;
static struct program programs[MOST_PROGRAMS];
static struct value *values;
static uint32_t n_values, room;
static uint64_t slices[WHATS][SLICES];
static int slice_bits = 12; /* a slice has 2 to the power of it instructions */
static uint64_t sliced;
static FILE *to;

static void *zeroed(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory) {
		fprintf(stderr, "kentry plugin: out of memory\n");
		exit(1);
	}
	return memory;
}

int accounts_init(uint32_t functions)
{
	n_functions = functions;
	for (int what = 0; what < SINGLES; what++)
		accounts_kind((enum what)what, 0);
	/* Number 0: of tasks that are no program's, such as the runner, which interrupts meet, too. */
	accounts_program((const char[NAME_LENGTH]){ 0 });
	room = 1 << 14;
	values = zeroed(room, sizeof(*values));
	return 0;
}

uint32_t accounts_kind(enum what what, int32_t number)
{
	if (what < SINGLES && n_kinds >= SINGLES)
		return what;
	for (uint32_t id = 0; id < n_kinds; id++)
		if (kinds[id].what == what && kinds[id].number == number)
			return id;
	if (n_kinds == MOST_KINDS)
		return MOST_KINDS - 1;
	/* calloc() of pages that are never written takes no memory. */
	kinds[n_kinds] = (struct kind){
		.what = what,
		.number = number,
		.functions = zeroed(n_functions, sizeof(uint64_t)),
	};
	return n_kinds++;
}

struct kind *accounts_of(uint32_t kind)
{
	return &kinds[kind];
}

uint32_t accounts_program(const char *name)
{
	struct program *program;

	for (uint32_t i = 0; i < n_programs; i++)
		if (!strncmp(programs[i].name, name, NAME_LENGTH))
			return i;
	if (n_programs == MOST_PROGRAMS)
		return MOST_PROGRAMS - 1;
	program = &programs[n_programs];
	memcpy(program->name, name, NAME_LENGTH);
	program->of = zeroed(MOST_KINDS, sizeof(*program->of));
	return n_programs++;
}

void accounts_task(uint32_t program)
{
	programs[program].tasks++;
}

void accounts_call(uint32_t kind, uint32_t program)
{
	kinds[kind].calls++;
	programs[program].of[kind].calls++;
}

static void widen_slices(void)
{
	slice_bits++;
	for (int what = 0; what < WHATS; what++)
		for (int i = 0; i < SLICES; i++) {
			uint64_t *slice = &slices[what][i];

			*slice = i < SLICES / 2 ? slices[what][2 * i] + slices[what][2 * i + 1] : 0;
		}
}

static void add_to_slices(enum what what, uint64_t instructions)
{
	while (instructions) {
		uint64_t slice = sliced >> slice_bits;
		uint64_t left = ((slice + 1) << slice_bits) - sliced;
		uint64_t here = left < instructions ? left : instructions;

		if (slice == SLICES) {
			widen_slices();
			continue;
		}
		slices[what][slice] += here;
		sliced += here;
		instructions -= here;
	}
}

void accounts_add(uint32_t kind, enum part part, uint32_t function, uint32_t program,
		  uint64_t instructions)
{
	add_to_slices(kinds[kind].what, instructions);
	kinds[kind].parts[part] += instructions;
	kinds[kind].functions[function] += instructions;
	if (kind == IS_USER)
		programs[program].user += instructions;
	else if (kind > IS_OTHER)
		programs[program].of[kind].instructions += instructions;
}

static struct value *slot_of(struct value *table, uint32_t size, uint32_t kind, uint64_t value)
{
	uint64_t hash = (value * 0x9e3779b97f4a7c15 ^ kind) * 0xff51afd7ed558ccd;
	uint32_t at = (uint32_t)(hash >> 32) & (size - 1);

	while (table[at].times && (table[at].kind != kind || table[at].instructions != value))
		at = (at + 1) & (size - 1);
	return &table[at];
}

static void grow(void)
{
	struct value *larger = zeroed((size_t)room * 2, sizeof(*larger));

	for (uint32_t i = 0; i < room; i++)
		if (values[i].times)
			*slot_of(larger, room * 2, values[i].kind, values[i].instructions) =
				values[i];
	free(values);
	values = larger;
	room *= 2;
}

static uint64_t rounded(uint64_t value)
{
	int bits = 0;

	while (value >> bits >= 1u << KEPT_BITS)
		bits++;
	return value >> bits << bits;
}

void accounts_ended(uint32_t kind, uint64_t instructions)
{
	struct value *value;

	kinds[kind].ended++;
	if (n_values >= VALUES)
		instructions = rounded(instructions);
	if (n_values >= room / 2)
		grow();
	value = slot_of(values, room, kind, instructions);
	if (!value->times++) {
		value->kind = kind;
		value->instructions = instructions;
		n_values++;
	}
}

static int in_order(const void *a, const void *b)
{
	const struct value *one = a, *other = b;

	if (one->kind != other->kind)
		return one->kind < other->kind ? -1 : 1;
	return (one->instructions > other->instructions) -
	       (one->instructions < other->instructions);
}

static void write_kind(uint32_t id)
{
	const struct kind *kind = &kinds[id];

	fprintf(to, "kind %" PRIu32 " %d %" PRId32 " %" PRIu64 " %" PRIu64, id, (int)kind->what,
		kind->number, kind->calls, kind->ended);
	for (int part = 0; part < PARTS; part++)
		fprintf(to, " %" PRIu64, kind->parts[part]);
	fprintf(to, " %" PRIu64 " %" PRIu64 " %" PRIu32 "\n", kind->blocked, kind->preempted,
		kind->function);
	for (uint32_t i = 0; i < n_functions; i++)
		if (kind->functions[i])
			fprintf(to, "function %" PRIu32 " %" PRIu32 " %" PRIu64 "\n", id, i,
				kind->functions[i]);
}

static void write_program(uint32_t number)
{
	const struct program *program = &programs[number];

	fprintf(to, "program %" PRIu32 " ", number);
	for (int i = 0; i < NAME_LENGTH && program->name[i]; i++)
		fprintf(to, "%02x", (unsigned char)program->name[i]);
	fprintf(to, " %" PRIu64 " %" PRIu64 "\n", program->tasks, program->user);
	for (uint32_t id = 0; id < n_kinds; id++)
		if (program->of[id].calls || program->of[id].instructions)
			fprintf(to, "of %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64 "\n", number,
				id, program->of[id].calls, program->of[id].instructions);
}

static void write_slices(void)
{
	uint64_t width = 1ull << slice_bits, filled = (sliced + width - 1) >> slice_bits;

	for (int what = 0; what < WHATS; what++) {
		fprintf(to, "slices %" PRIu64 " %d", width, what);
		for (uint64_t i = 0; i < filled; i++)
			fprintf(to, " %" PRIu64, slices[what][i]);
		fprintf(to, "\n");
	}
}

int accounts_open(const char *file)
{
	to = fopen(file, "w");
	if (!to)
		return -1;
	/* The disk may be full at the end; some file systems cannot do this. */
	if (!fallocate(fileno(to), FALLOC_FL_KEEP_SIZE, 0, FILE_BYTES))
		return 0;
	return errno == ENOSPC || errno == EDQUOT ? -1 : 0;
}

int accounts_write(const struct accounts_end *end)
{
	uint32_t filled = 0;

	fprintf(to, "from %" PRIu64 " %" PRIu64 "\n", end->instructions[0], end->ns[0]);
	fprintf(to, "clock %" PRIu64 " %" PRIu64 " %" PRId64 "\n", end->readings, end->compared,
		(int64_t)end->ahead);
	fprintf(to, "missed %" PRIu64 "\n", end->missed);
	for (uint32_t id = 0; id < n_kinds; id++)
		write_kind(id);
	/* In their order from here on: the table is not looked at again. */
	for (uint32_t i = 0; i < room; i++)
		if (values[i].times)
			values[filled++] = values[i];
	qsort(values, filled, sizeof(*values), in_order);
	for (uint32_t i = 0; i < filled; i++)
		fprintf(to, "value %" PRIu32 " %" PRIu64 " %" PRIu64 "\n", values[i].kind,
			values[i].instructions, values[i].times);
	for (uint32_t i = 1; i < n_programs; i++)
		write_program(i);
	write_slices();
	fprintf(to, "to %" PRIu64 " %" PRIu64 " %d\n", end->instructions[1], end->ns[1],
		end->complete);
	return fclose(to);
}
