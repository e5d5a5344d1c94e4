/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A histogram of times: a bin for each nanosecond at first, 64 for each power of two above. */
#ifndef KENTRY_BINS_H
#define KENTRY_BINS_H

#define FINE_BINS 4096
#define FINE_BITS 12
#define BINS_A_POWER 64
#define POWER_BITS 6
#define MOST_BITS 48
#define BINS (FINE_BINS + (MOST_BITS - FINE_BITS) * BINS_A_POWER)

/* By hand: not every architecture has an instruction for it. */
static inline long top_bit(long ns)
{
	long bit = 0;

	for (; ns > 1; ns >>= 1)
		bit++;
	return bit;
}

/* The bin that `ns` is in; the last one has all that is longer. */
static inline long bin_of(long ns)
{
	long power = top_bit(ns);

	if (ns < 0)
		return 0;
	if (ns < FINE_BINS)
		return ns;
	if (power >= MOST_BITS)
		return BINS - 1;
	return FINE_BINS + (power - FINE_BITS) * BINS_A_POWER +
	       (ns >> (power - POWER_BITS) & (BINS_A_POWER - 1));
}

/* The lower bound of a bin in ns. */
static inline long bin_start(long bin)
{
	long power = (bin - FINE_BINS) / BINS_A_POWER + FINE_BITS;

	if (bin < FINE_BINS)
		return bin;
	return (1L << power) + ((bin - FINE_BINS) % BINS_A_POWER << (power - POWER_BITS));
}

#endif
