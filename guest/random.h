/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Random numbers that a seed repeats. */
#ifndef KENTRY_RANDOM_H
#define KENTRY_RANDOM_H

void seed_random(unsigned long seed);
/* A number from 0 to limit - 1. */
unsigned long random_below(unsigned long limit);
/* Puts `count` numbers in random order. */
void shuffle(long *numbers, long count);

#endif
