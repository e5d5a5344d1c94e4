/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System call numbers: include/uapi/asm-generic/unistd.h (arm64, riscv64),
 * arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl, Linux 6.12.
 * arch.h says which column is this architecture's.
 */
#ifndef KENTRY_NUMBERS_H
#define KENTRY_NUMBERS_H

#include "arch.h"

#define FOR_EACH_NUMBER(X)                   \
	/* name, generic, x86-64, i386 */    \
	X(clock_gettime, 113, 228, 403)      \
	X(clone, 220, 56, 120)               \
	X(close, 57, 3, 6)                   \
	X(dup3, 24, 292, 330)                \
	X(exit, 93, 60, 1)                   \
	X(futex, 98, 202, 240)               \
	X(fstat, 80, 5, 197)                 \
	X(getcpu, 168, 309, 318)             \
	X(getpid, 172, 39, 20)               \
	X(getppid, 173, 110, 64)             \
	X(gettid, 178, 186, 224)             \
	X(getuid, 174, 102, 199)             \
	X(invalid, 4095, 4095, 4095)         \
	X(ioctl, 29, 16, 54)                 \
	X(kill, 129, 62, 37)                 \
	X(linkat, 37, 265, 303)              \
	X(madvise, 233, 28, 219)             \
	X(memfd_create, 279, 319, 356)       \
	X(mkdirat, 34, 258, 296)             \
	X(mknodat, 33, 259, 297)             \
	X(mmap, 222, 9, 192)                 \
	X(mount, 40, 165, 21)                \
	X(nanosleep, 101, 35, 162)           \
	X(newfstatat, 79, 262, 300)          \
	X(openat, 56, 257, 295)              \
	X(perf_event_open, 241, 298, 336)    \
	X(pipe2, 59, 293, 331)               \
	X(prctl, 167, 157, 172)              \
	X(pread64, 67, 17, 180)              \
	X(pwrite64, 68, 18, 181)             \
	X(read, 63, 0, 3)                    \
	X(reboot, 142, 169, 88)              \
	X(rt_sigaction, 134, 13, 174)        \
	X(sched_getaffinity, 123, 204, 242)  \
	X(sched_setaffinity, 122, 203, 241)  \
	X(sched_setscheduler, 119, 144, 156) \
	X(sched_yield, 124, 24, 158)         \
	X(uname, 160, 63, 122)               \
	X(wait4, 260, 61, 114)               \
	X(write, 64, 1, 4)

#define NUMBER_NATIVE(name, generic, x86, i386) NR_##name = NR_OF(name, generic, x86, i386),
#define NUMBER_COMPAT(name, generic, x86, i386) NR32_##name = i386,

enum { FOR_EACH_NUMBER(NUMBER_NATIVE) };
enum { FOR_EACH_NUMBER(NUMBER_COMPAT) };

#endif
