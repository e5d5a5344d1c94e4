/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls and what is made of them.  No libc: every kernel entry in this program is one
 * that this program spells out.
 */
#ifndef KENTRY_SYSTEM_H
#define KENTRY_SYSTEM_H

#include "numbers.h"

#define AT_FDCWD -100
#define O_RDONLY 0
#define O_WRONLY 1
#define O_RDWR 2
#define SIGKILL 9
#define SIGUSR1 10
#define SIGCHLD 17

struct work; /* window.h */

/*
 * The user's buffers lie below 4 GiB, so int80 can name them.  A context moves them (context.h): the
 * arguments of a call that point to one get one of BUFFER_PLACES places, BUFFER_STEP bytes apart.
 */
#define BUFFER_STEP 4096
#define BUFFER_PLACES 8
#define BUFFER_SLACK (BUFFER_STEP * (BUFFER_PLACES - 1))
/* Large enough for any struct stat. */
extern char buffer[4096 + BUFFER_SLACK];
/* Of whole pages, for what is copied in bulk. */
#define PAGES_SIZE 65536
extern char pages[PAGES_SIZE + BUFFER_SLACK];
/* The argument as it is, or moved where it points to the beginning of a buffer. */
long moved(long argument, long place);

long syscall_raw(long nr, long a, long b, long c, long d, long e, long f);
#define SYS(name, a, b, c, d) \
	syscall_raw(NR_##name, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* A child with a copy of this task's memory; 0 in the child, as fork(). */
long fork_child(void);
__attribute__((noreturn)) void exit_child(long status);
/* Its wait status; -1 where there is no such child. */
int wait_child(long child);

/* What the kernel says of the machine: the auxiliary vector, elf.h; 0 where it says nothing. */
#define AT_HWCAP 16
#define AT_HWCAP2 26
#define AT_SYSINFO_EHDR 33
unsigned long auxv_value(const unsigned long *auxv, unsigned long type);

/* For a case's setup: opens `path`, the first call's first argument is the descriptor. */
long open_for_first(struct work *w, const char *path, int flags);
/* The same for a file in memory with 64 KiB in it, which has been read often. */
long memory_file_for_first(struct work *w);

#endif
