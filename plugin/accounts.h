/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tasks plugin's sums: which kind of entry executed how many instructions, in which
 * functions, for which program.  Memory is bounded whatever the guest does.
 *
 * The file of accounts_write(), lines of text.  Numbers of instructions are those dispatched; a
 * REP instruction of x86 is one.
 *	from INSTRUCTIONS NS		when counting began
 *	to INSTRUCTIONS NS COMPLETE	and ended; COMPLETE is 1 at the runner's second mark
 *	clock READINGS INSTRUCTIONS AHEAD	of struct accounts_end
 *	missed RETURNS			to user mode that no return instruction was seen for
 *	kind ID WHAT NUMBER CALLS ENDED BEFORE HANDLER AFTER BLOCKED PREEMPTED FUNCTION
 *					FUNCTION: of the handler, 0 for none
 *	value ID INSTRUCTIONS TIMES	of the kind's ended calls; over VALUES of them are rounded
 *	function ID FUNCTION INSTRUCTIONS
 *	program NUMBER HEX TASKS USER	its name; instructions in user mode
 *	of NUMBER ID CALLS INSTRUCTIONS	what a program spent at a kind of entry
 *	slices SIZE WHAT INSTRUCTIONS...	at kinds that are WHAT, in each slice of the run;
 *					SIZE are all of a slice, but for the last
 */
#ifndef KENTRY_ACCOUNTS_H
#define KENTRY_ACCOUNTS_H

#include <stddef.h>
#include <stdint.h>

/* What a kind is.  kentry/count/workload.py has the same numbers. */
enum what {
	IS_USER, /* a program's own instructions, one value for each stay in user mode */
	IS_FIRMWARE,
	IS_IDLE,
	IS_KTHREAD,
	IS_OTHER, /* tasks that the program did not start: the runner */
	IS_BIRTH, /* a new task, until it first returns */
	IS_SYSCALL,
	IS_COMPAT, /* a system call by the 32-bit table */
	IS_FAULT,
	IS_INTERRUPT,
	IS_KERNEL_FAULT, /* taken in kernel mode */
	IS_KERNEL_INTERRUPT,
	WHATS,
	SINGLES = IS_SYSCALL, /* the kinds before have one number: the kind's own id */
};

/* Where in a call: around the handler, or in it.  All is BEFORE where no handler was seen. */
enum part { BEFORE, HANDLER, AFTER, PARTS };

struct kind {
	enum what what;
	int32_t number;
	uint32_t function;
	uint64_t calls, ended, blocked, preempted;
	uint64_t parts[PARTS];
	uint64_t *functions; /* instructions, by function */
};

#define MOST_KINDS 4096

int accounts_init(uint32_t functions);
/* The kind's id; the last one where there are too many. */
uint32_t accounts_kind(enum what what, int32_t number);
struct kind *accounts_of(uint32_t kind);
/* The number, from 1 on, of the program with a name of 16 bytes. */
uint32_t accounts_program(const char *name);
void accounts_task(uint32_t program);
void accounts_call(uint32_t kind, uint32_t program);
void accounts_add(uint32_t kind, enum part part, uint32_t function, uint32_t program,
		  uint64_t instructions);
/* A call, or a stay in user mode, has ended after this number of instructions. */
void accounts_ended(uint32_t kind, uint64_t instructions);

struct accounts_end {
	uint64_t instructions[2], ns[2];
	int complete;
	uint64_t missed;
	/* Of stretches between readings of the guest's clock without sleep: how many, their
	 * instructions with each iteration of a REP one, how many more these are than
	 * the clock says. */
	uint64_t readings, compared;
	uint64_t ahead; /* of 2 to the power of 64: a kernel's clock may be anything */
};

/* The file has its room on the disk from here on, and stays empty until the other writes it. */
int accounts_open(const char *file);
int accounts_write(const struct accounts_end *end);

#endif
