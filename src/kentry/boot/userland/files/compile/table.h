/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>

struct word {
	struct word *next;
	size_t count;
	char text[];
};

struct word *table_add(const char *text);
size_t table_list(struct word **list, size_t most);

char *text_next(char *buffer, size_t size);

#endif
