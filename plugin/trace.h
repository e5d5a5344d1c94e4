/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The trace: what the plugin writes, kentry-trace version 2, lines of text.
 *
 *	kentry-trace 2
 *	qemu TARGET api=N
 *	message TEXT			the probe's words, in their place among the windows
 *	insn INDEX ADDRESS BYTES TEXT	a kernel instruction, once, before a path uses it
 *	path ID COUNT INDEX+LENGTH...	a distinct path, once, as runs over the indexes
 *	accesses ID POSITION:ADDRESS:BYTES:KIND...
 *					what the path loads ("l") and stores ("s") in the next
 *					window, the second in a row of one case's that takes it;
 *					POSITION is the instruction's in the path, ADDRESS is
 *					hexadecimal
 *	window TIMES KERNEL FIRMWARE USER IRQS EXCEPTIONS ITERATIONS PATH TOUCHED
 *					TIMES windows in a row with these counts; ITERATIONS:
 *					how often REP instructions were dispatched beyond
 *					once; PATH: an ID, or "-" where none was recorded;
 *					TOUCHED: "-", or with commas the instructions that load
 *					and that store, the bytes loaded and stored, and the
 *					distinct lines of 32, 64 and 128 bytes and pages of 4096
 *	spoilt N			windows not counted: begun while the instrumentation was
 *					changing, or not ended before the next one, or at all
 *	check WINDOWS MISMATCHES	the self-check's result, where it was asked for
 *	end WINDOWS			the last line; a trace without it was cut short
 */
#ifndef KENTRY_TRACE_H
#define KENTRY_TRACE_H

#include <stdint.h>

#include "accesses.h"

#define NO_PATH (-1L)

struct window {
	uint64_t kernel, firmware, user, irqs, exceptions, iterations;
	long path;
	uint64_t has_touched; /* as wide as the others: windows are compared byte by byte */
	struct touched touched;
};

struct recorded_insn {
	uint64_t address;
	uint8_t bytes[16];
	uint32_t length;
	long index; /* in the trace; -1 until a path used it */
	char *text;
};

int trace_open(const char *file, const char *target_name, int api_version);
void trace_message(const char *text);
void trace_window(const struct window *window);
/* Writes the path if no equal one was written before; returns its id. */
long trace_path(struct recorded_insn *const *insns, uint64_t count);
/* Writes what a window of the path accessed, if it is the second of its case. */
void trace_accesses(long path, const struct access *accesses, size_t count);
void trace_close(uint64_t spoilt, int checked, uint64_t mismatches);

#endif
