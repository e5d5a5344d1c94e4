/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define MAP_FIXED 0x10

static long page;

/* The page before it is there to stay, and so is the page table that both are in. */
static long setup(struct work *w)
{
	long at = map_pages(2 * PAGE_BYTES);

	(void)w;
	if (at < 0)
		return at;
	*(volatile char *)at = 1;
	page = at + PAGE_BYTES;
	return 0;
}

static void run(struct work *w)
{
	w->first.ret = syscall_raw(NR_mmap, page, PAGE_BYTES, PROT_READ_WRITE,
				   MAP_PRIVATE_ANONYMOUS | MAP_FIXED, -1, 0);
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	*(volatile char *)page = 1;
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
}

static void finish(struct work *w)
{
	(void)w;
	SYS(munmap, page - PAGE_BYTES, 2 * PAGE_BYTES, 0, 0);
}

CASE_PART("memory", page_fault, "page-fault", "the first write to an anonymous page: a minor fault",
	  .want_first = ANY_RESULT, .want_second = 0, .setup = setup, .run = run, .finish = finish);
