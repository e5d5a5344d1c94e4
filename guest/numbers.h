/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System call numbers: include/uapi/asm-generic/unistd.h (arm64, riscv64),
 * arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl, Linux 6.12; rseq_slice_yield: 7.0.
 * arch.h says which column is this architecture's.
 */
#ifndef KENTRY_NUMBERS_H
#define KENTRY_NUMBERS_H

#include "arch.h"

#define FOR_EACH_NUMBER(X)                   \
	/* name, generic, x86-64, i386 */    \
	X(accept4, 242, 288, 364)            \
	X(bind, 200, 49, 361)                \
	X(brk, 214, 12, 45)                  \
	X(clock_gettime, 113, 228, 403)      \
	X(clock_nanosleep, 115, 230, 267)    \
	X(clone, 220, 56, 120)               \
	X(clone3, 435, 435, 435)             \
	X(close, 57, 3, 6)                   \
	X(connect, 203, 42, 362)             \
	X(dup3, 24, 292, 330)                \
	X(epoll_create1, 20, 291, 329)       \
	X(epoll_ctl, 21, 233, 255)           \
	X(epoll_pwait, 22, 281, 319)         \
	X(eventfd2, 19, 290, 328)            \
	X(execveat, 281, 322, 358)           \
	X(exit, 93, 60, 1)                   \
	X(fstat, 80, 5, 197)                 \
	X(futex, 98, 202, 240)               \
	X(getcpu, 168, 309, 318)             \
	X(getpid, 172, 39, 20)               \
	X(getppid, 173, 110, 64)             \
	X(getrandom, 278, 318, 355)          \
	X(getsockname, 204, 51, 367)         \
	X(gettid, 178, 186, 224)             \
	X(getuid, 174, 102, 199)             \
	X(invalid, 4095, 4095, 4095)         \
	X(io_uring_enter, 426, 426, 426)     \
	X(io_uring_setup, 425, 425, 425)     \
	X(ioctl, 29, 16, 54)                 \
	X(kill, 129, 62, 37)                 \
	X(linkat, 37, 265, 303)              \
	X(listen, 201, 50, 363)              \
	X(madvise, 233, 28, 219)             \
	X(memfd_create, 279, 319, 356)       \
	X(mkdirat, 34, 258, 296)             \
	X(mknodat, 33, 259, 297)             \
	X(mmap, 222, 9, 192)                 \
	X(mount, 40, 165, 21)                \
	X(mprotect, 226, 10, 125)            \
	X(munmap, 215, 11, 91)               \
	X(nanosleep, 101, 35, 162)           \
	X(newfstatat, 79, 262, 300)          \
	X(openat, 56, 257, 295)              \
	X(perf_event_open, 241, 298, 336)    \
	X(personality, 92, 135, 136)         \
	X(pipe2, 59, 293, 331)               \
	X(ppoll, 73, 271, 309)               \
	X(prctl, 167, 157, 172)              \
	X(pread64, 67, 17, 180)              \
	X(ptrace, 117, 101, 26)              \
	X(pwrite64, 68, 18, 181)             \
	X(read, 63, 0, 3)                    \
	X(reboot, 142, 169, 88)              \
	X(recvmsg, 212, 47, 372)             \
	X(rseq, 293, 334, 386)               \
	X(rseq_slice_yield, 471, 471, 471)   \
	X(rt_sigaction, 134, 13, 174)        \
	X(rt_sigprocmask, 135, 14, 175)      \
	X(sched_getaffinity, 123, 204, 242)  \
	X(sched_setaffinity, 122, 203, 241)  \
	X(sched_setscheduler, 119, 144, 156) \
	X(sched_yield, 124, 24, 158)         \
	X(sendmsg, 211, 46, 370)             \
	X(sendto, 206, 44, 369)              \
	X(signalfd4, 74, 289, 327)           \
	X(socket, 198, 41, 359)              \
	X(socketpair, 199, 53, 360)          \
	X(timerfd_create, 85, 283, 322)      \
	X(timerfd_settime, 86, 286, 325)     \
	X(uname, 160, 63, 122)               \
	X(wait4, 260, 61, 114)               \
	X(write, 64, 1, 4)

#define NUMBER_NATIVE(name, generic, x86, i386) NR_##name = NR_OF(name, generic, x86, i386),
#define NUMBER_COMPAT(name, generic, x86, i386) NR32_##name = i386,

enum { FOR_EACH_NUMBER(NUMBER_NATIVE) };
enum { FOR_EACH_NUMBER(NUMBER_COMPAT) };

#endif
