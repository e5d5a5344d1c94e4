// SPDX-License-Identifier: GPL-2.0-or-later
/* The probe's words; text.h says what each function does. */
#include "arch.h"
#include "system.h"
#include "text.h"

#define MOST_NUMBER 0x7fffffffffffffff

void put(struct line *line, const char *text)
{
	while (*text && line->length < sizeof(line->text) - 1)
		line->text[line->length++] = *text++;
}

void put_number(struct line *line, long value)
{
	char digits[24];
	int i = sizeof(digits) - 1;
	unsigned long rest = value < 0 ? -(unsigned long)value : (unsigned long)value;

	digits[i] = 0;
	do {
		digits[--i] = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	if (value < 0)
		digits[--i] = '-';
	put(line, digits + i);
}

struct line console_line(const char *text)
{
	struct line line = { 0 };

	put(&line, "kentry-probe ");
	put(&line, text);
	return line;
}

void say(struct line *line)
{
	line->text[line->length++] = '\n';
	SYS(write, 1, line->text, line->length, 0);
}

static void send_bit(int bit)
{
	if (bit)
		__asm__ volatile(MARK_ASM(MARK_BIT1)::: "memory");
	else
		__asm__ volatile(MARK_ASM(MARK_BIT0)::: "memory");
}

void send(struct line *line)
{
	line->text[line->length++] = '\n';
	for (unsigned long i = 0; i < line->length; i++)
		for (int bit = 7; bit >= 0; bit--)
			send_bit(line->text[i] >> bit & 1);
}

int same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

const char *after(const char *text, const char *prefix)
{
	while (*prefix)
		if (*text++ != *prefix++)
			return 0;
	return text;
}

const char *take_number(const char *text, long *value)
{
	const char *first = text;

	for (*value = 0; *text >= '0' && *text <= '9'; text++) {
		if (*value > (MOST_NUMBER - (*text - '0')) / 10)
			return 0;
		*value = *value * 10 + (*text - '0');
	}
	return text == first ? 0 : text;
}
