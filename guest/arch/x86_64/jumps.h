/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86-64: jumps and a return that the probe writes into memory. */
#ifndef KENTRY_JUMPS_H
#define KENTRY_JUMPS_H

/* ret */
#define RETURN_CODE 0xc3ul

/* jmp rel32, from the end of its five bytes. */
static inline unsigned long jump_code(long distance)
{
	return 0xe9 | (unsigned long)(unsigned int)(distance - 5) << 8;
}

/* What is fetched is what was written: SDM volume 3, "Self-Modifying Code". */
static inline void publish_code(char *code, long bytes)
{
	(void)code, (void)bytes;
}

#endif
