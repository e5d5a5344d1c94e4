/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The probe's words: lines of text, to the console and to the plugin. */
#ifndef KENTRY_TEXT_H
#define KENTRY_TEXT_H

/* Begins as { 0 } and stays a string until it is said or sent; what does not fit is lost. */
struct line {
	unsigned long length;
	char text[256];
};

void put(struct line *line, const char *text);
void put_number(struct line *line, long value);

/* "kentry-probe TEXT", to be gone on with. */
struct line console_line(const char *text);
void say(struct line *line);  /* on the console */
void send(struct line *line); /* to the plugin, by marks */

int same(const char *a, const char *b);
/* What follows `prefix` in `text`; null where `text` does not begin with it. */
const char *after(const char *text, const char *prefix);
/* The decimal number at `text` into `value`; what follows it, null where there is none. */
const char *take_number(const char *text, long *value);

#endif
