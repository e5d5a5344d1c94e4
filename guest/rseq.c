// SPDX-License-Identifier: GPL-2.0-or-later
/* Restartable sequences; rseq.h says what each function does. */
#include "arch.h"
#include "macros.h"
#include "rseq.h"
#include "system.h"
#include "window.h"

/* What a signature is to a C library: a critical section's handler would begin with it. */
#define SIGNATURE 0x53053053
/*
 * What glibc 2.41 and later register where AT_RSEQ_FEATURE_SIZE is more than 32, as since 7.0.  By
 * the length 7.2 tells programs that need what it did before 6.19 (kernel/rseq.c, rseq_register()).
 * Before 6.3 there is only the shorter one.
 */
#define LENGTH 64
#define FIRST_LENGTH 32

struct rseq_area rseq_area FOR_KERNEL;
volatile int is_preempted;
static volatile int is_over;
static volatile int is_awaited FOR_KERNEL;

long register_rseq(void)
{
	long err = SYS(rseq, &rseq_area, LENGTH, 0, SIGNATURE);

	return err == -EINVAL ? SYS(rseq, &rseq_area, FIRST_LENGTH, 0, SIGNATURE) : err;
}

static void wake_preempting(void)
{
	is_awaited = 1;
	SYS(futex, &is_awaited, FUTEX_WAKE | FUTEX_PRIVATE, 1, 0);
}

static void preempt(void)
{
	static long time[2] FOR_KERNEL = { 0, 20000 };
	const int priority = 2;

	SYS(sched_setscheduler, 0, SCHED_FIFO, &priority, 0);
	while (!is_over) {
		while (!is_awaited)
			SYS(futex, &is_awaited, FUTEX_WAIT | FUTEX_PRIVATE, 0, 0);
		is_awaited = 0;
		SYS(nanosleep, time, 0, 0, 0);
		is_preempted = 1;
	}
}

long start_preempting(void)
{
	long err = set_policy(SCHED_FIFO);

	is_over = 0;
	if (!err)
		err = start_task(THREAD, preempt);
	return err < 0 ? err : 0;
}

void stop_preempting(struct work *w)
{
	(void)w;
	is_over = 1;
	wake_preempting();
	join_thread();
	set_policy(SCHED_OTHER);
}

void await_preemption(void)
{
	is_preempted = 0;
	wake_preempting();
}

void wait_preempted(struct work *w)
{
	(void)w;
	await_preemption();
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	while (!is_preempted)
		;
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
}
