// SPDX-License-Identifier: GPL-2.0-or-later
/* Walks through memory; walks.h says what each function does. */
#include "jumps.h"
#include "system.h"
#include "walks.h"

#define MADV_NOHUGEPAGE 15

/* Code is run through page by page.  Lines of a page follow in steps that no prefetcher follows. */
#define PAGE_LINES (PAGE_BYTES / LINE_BYTES)
#define LINE_STEP 29

/* What walks read and run through, if there are any. */
static char *walked, *code;
static long walked_bytes, code_bytes;

/*
 * What all walks read, as much as the longest: pages that are there before the first fork.  It is
 * shared, not private, because a fork copies no page tables of shared memory, and there are
 * forks of slots that do not walk.  Pages are small ones: MADV_NOHUGEPAGE precedes whatever
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled says, "force" too
 * (shmem_allowable_huge_orders(), mm/shmem.c), but only for pages that are not there yet.
 */
static char *share_lines(long bytes)
{
	char *lines = map_shared(bytes);

	if (lines)
		SYS(madvise, lines, bytes, MADV_NOHUGEPAGE, 0);
	for (long line = 0; lines && line < bytes; line += LINE_BYTES)
		lines[line] = 1;
	return lines;
}

/* Where the code goes on after `lines` lines. */
static char *code_line(long lines)
{
	long of_page = lines * LINE_STEP % PAGE_LINES;

	return code + (lines / PAGE_LINES * PAGE_LINES + of_page) * LINE_BYTES;
}

/* A jump to the next line in each line, and in the last a return; never writable and executable. */
static long write_code(void)
{
	long last = code_bytes / LINE_BYTES - 1;

	for (long i = 0; i < last; i++)
		*(unsigned long *)code_line(i) = jump_code(code_line(i + 1) - code_line(i));
	*(unsigned long *)code_line(last) = RETURN_CODE;
	publish_code(code, code_bytes);
	return SYS(mprotect, code, code_bytes, PROT_READ_EXEC, 0);
}

long share_walks(long data, long run)
{
	walked_bytes = data;
	code_bytes = (run + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	if (walked_bytes && !(walked = share_lines(walked_bytes)))
		return -ENOMEM;
	if (code_bytes && !(code = share_lines(code_bytes)))
		return -ENOMEM;
	return code_bytes ? write_code() : 0;
}

void keep_walks_unforked(void)
{
	if (walked)
		SYS(madvise, walked, walked_bytes, MADV_DONTFORK, 0);
	if (code)
		SYS(madvise, code, code_bytes, MADV_DONTFORK, 0);
}

int may_run_code(void)
{
	long page = map_pages(PAGE_BYTES);
	long err = page < 0 ? page : SYS(mprotect, page, PAGE_BYTES, PROT_READ_EXEC, 0);

	SYS(munmap, page, PAGE_BYTES, 0, 0);
	return err == 0;
}

__attribute__((noinline)) void walk(long bytes)
{
	for (long at = 0; at < bytes; at += LINE_BYTES)
		(void)*(volatile char *)(walked + at);
}

__attribute__((noinline)) void run_through(long bytes)
{
	/* The walk begins so far in that the lines behind its start are as many as it runs. */
	((void (*)(void))code_line((code_bytes - bytes) / LINE_BYTES))();
}
