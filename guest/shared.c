// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory in common; shared.h says what each function does. */
#include "bins.h"
#include "shared.h"
#include "slots.h"
#include "system.h"
#include "walks.h"

volatile int *turn_done;
/* Memory shared by the slots and the parent. */
static char *arena;
static long arena_bytes;

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
	arena = map_shared(arena_bytes);
	if (!arena)
		return -ENOMEM;
	lay_out((long)arena);
	return 0;
}

/* What walks need, which is as much as the longest one. */
static long share_walked(void)
{
	long data = 0, code = 0;

	for (long i = 0; i < slots_used; i++) {
		data = slots[i].walk > data ? slots[i].walk : data;
		code = slots[i].code > code ? slots[i].code : code;
	}
	return share_walks(data, code);
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
	keep_walks_unforked();
}

void wait_on(volatile int *word, int value)
{
	const long time[2] = { LOOK_SECONDS, 0 };

	syscall_raw(NR_futex, (long)word, FUTEX_WAIT, value, (long)time, 0, 0);
}
