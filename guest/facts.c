// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints files of /proc and /sys; facts.h lists the lines. */
#include "facts.h"
#include "macros.h"
#include "system.h"
#include "text.h"

#define O_NONBLOCK 04000 /* asm-generic/fcntl.h: a pipe does not stop us */
#define ENAMETOOLONG 36
#define MOST_BYTES 65536L

/* What is not in `line`'s 256 bytes: "kentry-probe nofile ", " -4095", the new line. */
#define PATH_ROOM 224

static char listed[MOST_BYTES + 1] IN_PAGES;

/* A line that the console cannot mistake for something else: printable ASCII, a tab is a blank. */
static char printable(char byte)
{
	if (byte == '\t')
		return ' ';
	return byte >= ' ' && byte <= '~' ? byte : '?';
}

/* Is there room for one byte more, and after it the new line? */
static int is_full(const struct line *line)
{
	return line->length >= sizeof(line->text) - 1;
}

/*
 * Goes on with the text of a file; `row` is the line that is being made, of length 0 between
 * the file's lines.
 */
static void put_text(struct line *row, const char *text, long length)
{
	for (long i = 0; i < length; i++) {
		if (row->length == 0)
			*row = console_line("> ");
		if (text[i] == '\n') {
			say(row);
			row->length = 0;
			continue;
		}
		if (is_full(row)) {
			say(row);
			*row = console_line("+ ");
		}
		row->text[row->length++] = printable(text[i]);
	}
}

static void answer(const char *word, const char *path, long error)
{
	struct line line = console_line(word);

	put(&line, path);
	if (error) {
		put(&line, " ");
		put_number(&line, error);
	}
	say(&line);
}

static long least(long a, long b)
{
	return a < b ? a : b;
}

/* Files of /proc and /sys give as much as they like in one read, and 0 only at their end. */
static void print_file(const char *path)
{
	long fd = SYS(openat, AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
	long got = fd, done = 0;
	struct line row = { 0 };

	if (fd >= 0)
		got = SYS(read, fd, buffer, sizeof(buffer), 0);
	if (got < 0)
		answer("nofile ", path, -got);
	else
		answer("file ", path, 0);
	while (got > 0) {
		put_text(&row, buffer, got);
		done += got;
		got = SYS(read, fd, buffer, least(sizeof(buffer), MOST_BYTES - done), 0);
	}
	if (row.length)
		say(&row);
	if (fd >= 0)
		SYS(close, fd, 0, 0, 0);
}

static int is_separator(char byte)
{
	return byte == ',' || byte == '\n';
}

/* The path at `text` into `path`; what follows it, and whether it fitted. */
static const char *take_path(const char *text, char *path, int *fits)
{
	long length = 0;

	*fits = 1;
	for (; *text && !is_separator(*text); text++) {
		if (length < PATH_ROOM - 1)
			path[length++] = *text;
		else
			*fits = 0;
	}
	path[length] = 0;
	return text;
}

/* The paths in `file`; none where it cannot be read, which is said as of any other file. */
static const char *read_list(const char *file)
{
	long fd = SYS(openat, AT_FDCWD, file, O_RDONLY, 0);
	long got = fd, length = 0;

	while (fd >= 0 && (got = SYS(read, fd, listed + length, MOST_BYTES - length, 0)) > 0)
		length += got;
	if (fd >= 0)
		SYS(close, fd, 0, 0, 0);
	if (got < 0)
		answer("nofile ", file, -got);
	listed[length] = 0;
	return listed;
}

void facts(const char *paths)
{
	struct line line = console_line("end files=");
	long files = 0;

	if (*paths == '@')
		paths = read_list(paths + 1);
	while (*paths) {
		char path[PATH_ROOM];
		int fits;

		paths = take_path(paths, path, &fits);
		if (*path) {
			if (fits)
				print_file(path);
			else
				answer("nofile ", path, ENAMETOOLONG);
			files++;
		}
		if (*paths)
			paths++;
	}
	put_number(&line, files);
	say(&line);
}
