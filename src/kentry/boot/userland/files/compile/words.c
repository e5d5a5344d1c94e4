// SPDX-License-Identifier: GPL-2.0-or-later
/* The commonest words of a text. */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WORDS 4096
#define SHOWN 5

static int by_count(const void *a, const void *b)
{
	const struct word *const *first = a, *const *second = b;

	if ((*first)->count != (*second)->count)
		return (*first)->count < (*second)->count ? 1 : -1;
	return strcmp((*first)->text, (*second)->text);
}

int main(void)
{
	static struct word *list[MOST_WORDS];
	char buffer[128];
	size_t count;

	while (text_next(buffer, sizeof(buffer)))
		table_add(buffer);
	count = table_list(list, MOST_WORDS);
	qsort(list, count, sizeof(*list), by_count);
	for (size_t i = 0; i < count && i < SHOWN; i++)
		printf("%zu %s\n", list[i]->count, list[i]->text);
	return count ? EXIT_SUCCESS : EXIT_FAILURE;
}
