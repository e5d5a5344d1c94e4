/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tasks plugin must know of an instruction set: entries, vectors, the clock. */
#ifndef KENTRY_TASKS_ISA_H
#define KENTRY_TASKS_ISA_H

#include <stddef.h>
#include <stdint.h>

#include "accounts.h"

enum entry_kind { ENTRY_SYSCALL = 1, ENTRY_FAULT, ENTRY_INTERRUPT };

/* VECTOR_MODE: one of SME's that may enter or leave streaming mode. */
enum vector_class { VECTOR_NONE, VECTOR_PLAIN, VECTOR_SME, VECTOR_MODE };

struct entry {
	enum entry_kind kind;
	int32_t class; /* ESR_EL1.EC, scause, a hook's number; -1 where there is none */
	enum what what;
};

/* RETURN_BY_STACK: the stack says where to. */
enum return_kind { RETURN_NONE, RETURN_TO_CALLER, RETURN_BY_STACK };

struct tasks_isa {
	const char *target_name; /* as QEMU says it */
	/* Registers, by the names of QEMU's gdb stub; NULL where there is none. */
	const char *arguments[2];   /* a function's first two */
	const char *syscall_number; /* at the kernel's first instruction */
	const char *cause;	    /* of an exception */
	const char *return_address; /* NULL: on the stack */
	const char *stack;	    /* where exceptions leave their frame on it */
	const char *streaming;	    /* bit 0: streaming mode, bit 1: ZA */
	const char *clock_frequency;
	uint64_t clock_hz; /* where no register says it */
	/*
	 * How the kernel was entered, from the address of the first block executed and the
	 * cause.  NULL: by the addresses alone, which come with the hooks.
	 */
	struct entry (*entry)(uint64_t address, uint64_t cause);
	enum vector_class (*vector)(const uint8_t *bytes, size_t length);
	/* Whether an instruction of the kernel ends what an exception began. */
	enum return_kind (*returns)(const uint8_t *bytes, size_t length);
	/* Whether it surely does not fault and does not leave the block early. */
	int (*is_sure)(const uint8_t *bytes, size_t length);
	/* The register, and the one with the upper half, that this instruction reads the
	 * guest's clock into; false where it does not. */
	int (*reads_clock)(const uint8_t *bytes, size_t length, char low[8], char high[8]);
};

/* NULL where the target is not one of ours. */
const struct tasks_isa *tasks_isa_find(const char *target_name);

#endif
