// SPDX-License-Identifier: GPL-2.0-or-later
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 256

static struct word *slots[SLOTS];

static unsigned int hash(const char *text)
{
	unsigned int value = 5381;

	while (*text)
		value = value * 33 ^ (unsigned char)*text++;
	return value % SLOTS;
}

struct word *table_add(const char *text)
{
	struct word **slot = &slots[hash(text)];
	struct word *word;

	for (word = *slot; word; word = word->next)
		if (!strcmp(word->text, text)) {
			word->count++;
			return word;
		}
	word = calloc(1, sizeof(*word) + strlen(text) + 1);
	if (!word)
		abort();
	strcpy(word->text, text);
	word->count = 1;
	word->next = *slot;
	*slot = word;
	return word;
}

size_t table_list(struct word **list, size_t most)
{
	size_t count = 0;

	for (size_t i = 0; i < SLOTS; i++)
		for (struct word *word = slots[i]; word && count < most; word = word->next)
			list[count++] = word;
	return count;
}
