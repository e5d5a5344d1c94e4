// SPDX-License-Identifier: GPL-2.0-or-later
#include "random.h"

static unsigned long random_state = 1;

/* Splitmix64, Steele et al. 2014: of seeds that differ by a bit, states that differ by half of them. */
void seed_random(unsigned long seed)
{
	seed += 0x9e3779b97f4a7c15;
	seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111eb;
	seed ^= seed >> 31;
	random_state = seed ? seed : 1;
}

/* Xorshift, Marsaglia 2003. */
unsigned long random_below(unsigned long limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

void shuffle(long *numbers, long count)
{
	for (long i = count - 1; i > 0; i--) {
		long with = (long)random_below((unsigned long)i + 1), kept = numbers[i];

		numbers[i] = numbers[with];
		numbers[with] = kept;
	}
}
