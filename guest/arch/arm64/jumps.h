/* SPDX-License-Identifier: GPL-2.0-or-later */
/* arm64: jumps and a return that the probe writes into memory. */
#ifndef KENTRY_JUMPS_H
#define KENTRY_JUMPS_H

#include "system.h"

/* ret */
#define RETURN_CODE 0xd65f03c0ul

/* b */
static inline unsigned long jump_code(long distance)
{
	return 0x14000000 | ((unsigned long)distance >> 2 & 0x3ffffff);
}

/*
 * Caches of code do not see stores (Arm ARM, B2.7.4.2).  Each instruction begins a LINE_BYTES, so
 * one operation for each of them is enough, whatever a cache line has.
 */
static inline void publish_code(char *code, long bytes)
{
	for (long at = 0; at < bytes; at += LINE_BYTES)
		__asm__ volatile("dc cvau, %0" ::"r"(code + at) : "memory");
	__asm__ volatile("dsb ish" ::: "memory");
	for (long at = 0; at < bytes; at += LINE_BYTES)
		__asm__ volatile("ic ivau, %0" ::"r"(code + at) : "memory");
	__asm__ volatile("dsb ish\n\tisb" ::: "memory");
}

#endif
