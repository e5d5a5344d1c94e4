/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Places and numbers that the floor's C and assembly share. */
#ifndef KENTRY_FLOOR_LAYOUT_H
#define KENTRY_FLOOR_LAYOUT_H

/* The program: its addresses are the first 8 MiB, its memory lies this far into the machine's, below any initramfs. */
#define USER_BYTES 0x800000
#define USER_OFFSET 0x1000000

/* What getpid and getppid return.  The probe is not PID 1, or it would mount file systems. */
#define THE_PID 2
#define THE_PPID 1

/* NR_syscalls of Linux 6.12, on all three (include/uapi/asm-generic/unistd.h). */
#define CALLS 463
#define ENOSYS_RESULT -38

#define STACK_BYTES 16384

/*
 * floor:linux has a task above the top of its kernel stack, so both are found by one pointer.  The
 * flags are words of their own: what is to be done before a call, and on the way to user mode.
 */
#define TASK_SYSCALL_WORK 0
#define TASK_EXIT_WORK 8
#define TASK_PARENT 16
#define TASK_TGID 24
#define TASK_BYTES 32

#endif
