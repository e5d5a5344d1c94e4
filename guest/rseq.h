/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Restartable sequences, and a task of higher priority that preempts this one. */
#ifndef KENTRY_RSEQ_H
#define KENTRY_RSEQ_H

struct work; /* window.h */

/* struct rseq, include/uapi/linux/rseq.h of 7.0: what a kernel lacks it leaves as it is. */
struct rseq_area {
	unsigned int cpu_id_start, cpu_id;
	unsigned long critical_section;
	unsigned int flags, node_id, mm_cid;
	volatile unsigned char slice_requested, slice_granted;
};
extern struct rseq_area rseq_area;

/* Registers it for this task, as a C library does for every thread; 0, or a negative errno. */
long register_rseq(void);

/*
 * Starts a thread that preempts this task, and gives both a realtime policy; 0, or a negative
 * errno.
 */
long start_preempting(void);
void stop_preempting(struct work *w);
/* 20 us later, and once, that thread runs and sets it to 1. */
extern volatile int is_preempted;
void await_preemption(void);
/* A case's run(): from one mark to the other this task is preempted in user mode. */
void wait_preempted(struct work *w);

#endif
