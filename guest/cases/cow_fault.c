/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define MAP_PRIVATE 2
#define MAP_FIXED 0x10

static long first_page;

static long map(struct work *w, long bytes, long flags)
{
	return syscall_raw(NR_mmap, first_page, bytes, PROT_READ_WRITE, MAP_PRIVATE | flags,
			   w->first.args[0], 0);
}

/* Private pages of a file are the file's own until they are written to. */
static long setup(struct work *w)
{
	long err = memory_file_for_first(w);

	first_page = 0;
	first_page = err ? err : map(w, 2 * PAGE_BYTES, 0);
	if (first_page < 0)
		return first_page;
	/* It stays, and so does the page table. */
	*(volatile char *)(first_page + PAGE_BYTES) = 1;
	return 0;
}

static void run(struct work *w)
{
	w->first.ret = map(w, PAGE_BYTES, MAP_FIXED);
	(void)*(volatile char *)first_page;
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	*(volatile char *)first_page = 1;
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
}

static void finish(struct work *w)
{
	(void)w;
	SYS(munmap, first_page, 2 * PAGE_BYTES, 0, 0);
}

CASE_PART("memory", cow_fault, "cow-fault", "a write to a page that is shared until then: a copy",
	  .want_first = ANY_RESULT, .want_second = 0, .setup = setup, .run = run, .finish = finish);
