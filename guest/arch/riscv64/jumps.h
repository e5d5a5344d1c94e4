/* SPDX-License-Identifier: GPL-2.0-or-later */
/* riscv64: jumps and a return that the probe writes into memory. */
#ifndef KENTRY_JUMPS_H
#define KENTRY_JUMPS_H

#include "system.h"

/* arch/riscv/include/uapi/asm/unistd.h */
#define NR_riscv_flush_icache 259

/* ret */
#define RETURN_CODE 0x8067ul

/* j, for less than a mebibyte. */
static inline unsigned long jump_code(long distance)
{
	unsigned long to = (unsigned long)distance;

	return (to >> 20 & 1) << 31 | (to >> 1 & 0x3ff) << 21 | (to >> 11 & 1) << 20 |
	       (to >> 12 & 0xff) << 12 | 0x6f;
}

/* fence.i is of one hart; the kernel knows on which others, and in which children, it is due. */
static inline void publish_code(char *code, long bytes)
{
	SYS(riscv_flush_icache, code, code + bytes, 0, 0);
}

#endif
