/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The vDSO's clock. */
#ifndef KENTRY_VDSO_H
#define KENTRY_VDSO_H

typedef long (*clock_gettime_fn)(long clock, void *timespec);
/* Null where the vDSO has none. */
clock_gettime_fn vdso_clock_gettime(const unsigned long *auxv);

#endif
