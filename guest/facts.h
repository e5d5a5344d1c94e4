/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the machine says about itself: for the checks before a measurement. */
#ifndef KENTRY_FACTS_H
#define KENTRY_FACTS_H

/*
 * Prints the files at `paths`, separated by commas; "@FILE" in place of them all is a file
 * that has them, separated by commas or new lines.  On the console, for each:
 *
 *	file PATH		and then for each line of it
 *	> TEXT			its beginning, and
 *	+ TEXT			each part that one line of ours has no room for
 *	nofile PATH ERRNO	where it cannot be opened or read
 *
 * and after the last one "end files=N", all that were tried.  A file is cut after 64 KiB.
 */
void facts(const char *paths);

#endif
