/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The memory that a window's kernel instructions load and store. */
#ifndef KENTRY_ACCESSES_H
#define KENTRY_ACCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lines of 32, 64 and 128 bytes, and pages of 4096. */
#define LINE_SIZES 4

/*
 * Bytes next to each other that one instruction of the path loads, or stores.  QEMU reports
 * some of them in pieces: a pair of registers, an x86 REP instruction.
 */
struct access {
	uint64_t position; /* of the instruction in the path */
	uint64_t address;
	uint32_t bytes;
	bool is_store;
};

/* What a window's accesses add up to. */
struct touched {
	uint64_t loads, stores; /* executed instructions that do */
	uint64_t bytes_loaded, bytes_stored;
	uint64_t lines[LINE_SIZES]; /* distinct ones, by their size */
};

/* 0, or -1 without memory. */
int accesses_init(void);
void accesses_begin(void);
void accesses_add(uint64_t position, uint64_t address, size_t bytes, bool is_store);
/* false where there were more than fit. */
bool accesses_end(struct touched *touched);
/* Those since accesses_begin(), in the order of execution. */
const struct access *accesses_list(size_t *count);

#endif
