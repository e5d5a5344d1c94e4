// SPDX-License-Identifier: GPL-2.0-or-later
#include "accesses.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ACCESSES (1u << 20)
#define SLOT_BITS 17 /* of the set of lines; at most half of the slots are used */
#define SLOTS (1u << SLOT_BITS)

static const uint64_t line_sizes[LINE_SIZES] = { 32, 64, 128, 4096 };

/* A slot is free whose window is another one. */
struct slot {
	uint64_t line, window;
};

static struct access *accesses;
static size_t count;
static bool full;
static struct slot *slots;
static size_t slots_used;
static uint64_t set;
static struct touched sum;
/* The last load and the last store, which the next one may continue. */
static struct access *last[2];

int accesses_init(void)
{
	accesses = malloc(MAX_ACCESSES * sizeof(*accesses));
	slots = calloc(SLOTS, sizeof(*slots));
	return accesses && slots ? 0 : -1;
}

void accesses_begin(void)
{
	count = 0;
	full = false;
	memset(last, 0, sizeof(last));
	memset(&sum, 0, sizeof(sum));
}

void accesses_add(uint64_t position, uint64_t address, size_t bytes, bool is_store)
{
	struct access *before = last[is_store];

	if (is_store) {
		sum.stores += !before || before->position != position;
		sum.bytes_stored += bytes;
	} else {
		sum.loads += !before || before->position != position;
		sum.bytes_loaded += bytes;
	}
	if (before && before->position == position && before->address + before->bytes == address) {
		before->bytes += (uint32_t)bytes;
		return;
	}
	if (count == MAX_ACCESSES) {
		full = true;
		return;
	}
	accesses[count] = (struct access){ position, address, (uint32_t)bytes, is_store };
	last[is_store] = &accesses[count++];
}

/* Whether the set did not have the line. */
static bool add_line(uint64_t line)
{
	/* Fibonacci hashing. */
	size_t at = (line * 0x9e3779b97f4a7c15u) >> (64 - SLOT_BITS);

	while (slots[at].window == set) {
		if (slots[at].line == line)
			return false;
		at = (at + 1) % SLOTS;
	}
	slots[at] = (struct slot){ line, set };
	slots_used++;
	return true;
}

static uint64_t distinct_lines(uint64_t size)
{
	uint64_t distinct = 0;

	set++;
	slots_used = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t first = accesses[i].address / size;
		uint64_t end = (accesses[i].address + accesses[i].bytes - 1) / size;

		for (uint64_t line = first; line <= end; line++) {
			if (slots_used > SLOTS / 2) {
				full = true;
				return 0;
			}
			distinct += add_line(line);
		}
	}
	return distinct;
}

bool accesses_end(struct touched *touched)
{
	for (int i = 0; i < LINE_SIZES; i++)
		sum.lines[i] = distinct_lines(line_sizes[i]);
	*touched = sum;
	return !full;
}

const struct access *accesses_list(size_t *number)
{
	*number = count;
	return accesses;
}
