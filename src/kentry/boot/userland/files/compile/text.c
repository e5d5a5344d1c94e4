// SPDX-License-Identifier: GPL-2.0-or-later
#include "table.h"

#include <ctype.h>
#include <stdio.h>

char *text_next(char *buffer, size_t size)
{
	size_t length = 0;
	int c;

	while ((c = getchar()) != EOF) {
		if (isalnum(c) || c == '_') {
			if (length < size - 1)
				buffer[length++] = (char)c;
		} else if (length) {
			break;
		}
	}
	buffer[length] = 0;
	return length ? buffer : NULL;
}
