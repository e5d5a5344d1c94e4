/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Walks through data and code, so that little else is in the caches. */
#ifndef KENTRY_WALKS_H
#define KENTRY_WALKS_H

/* May this program run what it has written?  Not under SELinux without execmem, say. */
int may_run_code(void);
/* Before the first fork: bytes of memory for walks, and of code; 0, or a negative errno. */
long share_walks(long data, long run);
/* What a case forks has no use for them: shared.h. */
void keep_walks_unforked(void);

/* Reads `bytes`, a cache line after the other. */
void walk(long bytes);
/* Runs through `bytes` of code, with a jump in each line. */
void run_through(long bytes);

#endif
