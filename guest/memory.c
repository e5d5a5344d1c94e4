// SPDX-License-Identifier: GPL-2.0-or-later
/* The two functions GCC calls by itself even in a freestanding program. */

void *memset(void *to, int byte, unsigned long count)
{
	for (char *p = to; count--;)
		*p++ = (char)byte;
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, unsigned long count)
{
	const char *q = from;

	for (char *p = to; count--;)
		*p++ = *q++;
	return to;
}
