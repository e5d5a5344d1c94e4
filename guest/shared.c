// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory in common; shared.h says what each function does. */
#include "bins.h"
#include "shared.h"
#include "slots.h"
#include "system.h"

#define MAP_SHARED_ANONYMOUS 0x21
#define MADV_DONTFORK 10
#define MADV_NOHUGEPAGE 15

#define LINE_BYTES 64

volatile int *turn_done;
/* Memory shared by the slots and the parent; memory that walks read, if there are walks. */
static char *arena, *walked;
static long arena_bytes, walked_bytes;

/* Memory that children have in common with their parent; null where there is none. */
static void *shared(long bytes)
{
	long at = syscall_raw(NR_mmap, 0, bytes, PROT_READ_WRITE, MAP_SHARED_ANONYMOUS, -1, 0);

	return (unsigned long)at > -4096ul ? 0 : (void *)at;
}

/* The next `bytes` at *at, up to the end of a cache line. */
static void *take_piece(long *at, long bytes)
{
	void *piece = (void *)*at;

	*at += (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	return piece;
}

/* A slot's pieces, in pages of its own. */
static void lay_out_slot(struct slot *slot, long *at)
{
	long turns = timing.turns, bins = timing.tails ? BINS : 0;

	slot->go = take_piece(at, LINE_BYTES);
	slot->is_ready = slot->go + 1;
	slot->windows = (long *)slot->go + 1;
	slot->values = take_piece(at, turns * timing.blocks * (long)sizeof(long));
	slot->empties = take_piece(at, turns * empties_a_turn(slot) * (long)sizeof(long));
	slot->counted =
		take_piece(at, turns * READINGS * MOST_COUNTERS * (long)sizeof(struct reading));
	slot->bins = take_piece(at, bins * (long)sizeof(long));
	slot->empty_bins = take_piece(at, bins * (long)sizeof(long));
	*at = (*at + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* All pieces from `at` on; how many bytes they are. */
static long lay_out(long at)
{
	long begin = at;

	turn_done = take_piece(&at, PAGE_BYTES);
	for (long i = 0; i < slots_used; i++)
		lay_out_slot(&slots[i], &at);
	return at - begin;
}

/* One mapping for all slots: a fork copies every one that there is.  0, or a negative errno. */
static long share_arena(void)
{
	arena_bytes = lay_out(0);
	arena = shared(arena_bytes);
	if (!arena)
		return -ENOMEM;
	lay_out((long)arena);
	return 0;
}

/*
 * What all walks read, as much as the longest: pages that are there before the first fork.  It is
 * shared, not private, because a fork copies no page tables of shared memory, and there are
 * forks of slots that do not walk.  Pages are small ones: MADV_NOHUGEPAGE precedes whatever
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled says, "force" too
 * (shmem_allowable_huge_orders(), mm/shmem.c), but only for pages that are not there yet.
 */
static long share_walked(void)
{
	walked_bytes = 0;
	for (long i = 0; i < slots_used; i++)
		walked_bytes = slots[i].walk > walked_bytes ? slots[i].walk : walked_bytes;
	if (!walked_bytes)
		return 0;
	walked = shared(walked_bytes);
	if (!walked)
		return -ENOMEM;
	SYS(madvise, walked, walked_bytes, MADV_NOHUGEPAGE, 0);
	for (long line = 0; line < walked_bytes; line += LINE_BYTES)
		walked[line] = 1;
	return 0;
}

void share_memory(void)
{
	long err = share_arena();

	if (!err)
		err = share_walked();
	if (err) {
		report_failure(slots[0].full_name, "memory", 0, err);
		slots_used = 0;
	}
}

void keep_unforked(void)
{
	SYS(madvise, arena, arena_bytes, MADV_DONTFORK, 0);
	if (walked)
		SYS(madvise, walked, walked_bytes, MADV_DONTFORK, 0);
}

__attribute__((noinline)) void walk(long bytes)
{
	for (long at = 0; at < bytes; at += LINE_BYTES)
		(void)*(volatile char *)(walked + at);
}

void wait_on(volatile int *word, int value)
{
	const long time[2] = { LOOK_SECONDS, 0 };

	syscall_raw(NR_futex, (long)word, FUTEX_WAIT, value, (long)time, 0, 0);
}
