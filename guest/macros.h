/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What C lacks. */
#ifndef KENTRY_MACROS_H
#define KENTRY_MACROS_H

#define STR_(x) #x
#define STR(x) STR_(x)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * What a kernel reads or writes in a window begins a cache line of its own, 128 bytes at most, in
 * the page of such data: where the rest of the program lies then changes no count (probe.lds).
 */
#define FOR_KERNEL __attribute__((section(".data.kernel"), aligned(128)))
/* Pages of its own, zero at first: what is larger than a few hundred bytes. */
#define IN_PAGES __attribute__((section(".bss.pages"), aligned(4096)))

#endif
