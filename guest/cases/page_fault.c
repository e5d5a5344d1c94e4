/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define MAP_FIXED 0x10

/*
 * The kernel adds up how many pages of a control group change.  After more than a batch of changes
 * (memcg_rstat_updated(), MEMCG_CHARGE_BATCH is 64) it waits for somebody to read the sum, and a
 * fault takes a shorter path.  This is what a program that uses memory finds.
 */
#define FAULTS_BEFORE 256

static long page;

static void use_memory(void)
{
	long at = map_pages(FAULTS_BEFORE * PAGE_BYTES);

	if (at < 0)
		return;
	for (long n = 0; n < FAULTS_BEFORE; n++)
		*(volatile char *)(at + n * PAGE_BYTES) = 1;
	SYS(munmap, at, FAULTS_BEFORE * PAGE_BYTES, 0, 0);
}

/* The page before it is there to stay, and so is the page table that both are in. */
static long setup(struct work *w)
{
	long at;

	(void)w;
	use_memory();
	at = map_pages(2 * PAGE_BYTES);
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
