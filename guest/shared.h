/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the slots' processes and their parent have in common: memory, and words to wait on. */
#ifndef KENTRY_SHARED_H
#define KENTRY_SHARED_H

#include "system.h"

/* A process that waits looks so often, in seconds, whether the other one is alive. */
#define LOOK_SECONDS 2

/* Set by the process whose turn has ended. */
extern volatile int *turn_done;

/* Memory for all slots, with all that is in the arena; or says what failed, and none is used. */
void share_memory(void);
/*
 * What a case forks has no use for what this process and its parent have in common, and would be
 * the slower the more of it there is.
 */
void keep_unforked(void);

/* Waits until another process wakes this one, or for LOOK_SECONDS; not if `word` is not `value`. */
void wait_on(volatile int *word, int value);
static inline void set_and_wake(volatile int *word, int value)
{
	*word = value;
	syscall_raw(NR_futex, (long)word, FUTEX_WAKE, 1, 0, 0, 0);
}

#endif
