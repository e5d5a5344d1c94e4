/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls and what is made of them.  No libc: every kernel entry in this program is one
 * that this program spells out.
 */
#ifndef KENTRY_SYSTEM_H
#define KENTRY_SYSTEM_H

#include "numbers.h"

#define EPERM 1
#define ENOENT 2
#define ENXIO 6
#define ENOMEM 12
#define EACCES 13
#define ENODEV 19
#define EINVAL 22
#define ENOSYS 38
#define EPROTONOSUPPORT 93
#define EAFNOSUPPORT 97
#define ENOTSUPP 524 /* the kernel's own, include/linux/errno.h */

#define AT_FDCWD -100
#define O_RDONLY 0
#define O_WRONLY 1
#define O_RDWR 2
#define SIGKILL 9
#define SIGUSR1 10
#define SIGCHLD 17
#define SCHED_OTHER 0
#define AF_UNIX 1
#define SOCK_STREAM 1
#define SCHED_FIFO 1
#define SCHED_BATCH 3

struct work; /* window.h */

/* The user's buffers lie below 4 GiB, so int80 can name them; this one holds any struct stat. */
extern char buffer[4096];
/* Of whole pages, for what is copied in bulk. */
#define PAGES_SIZE 65536
extern char pages[PAGES_SIZE];

/* After standard input, output and error. */
#define FIRST_FREE_FD 3

long syscall_raw(long nr, long a, long b, long c, long d, long e, long f);
#define SYS(name, a, b, c, d) \
	syscall_raw(NR_##name, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

#define CLOCK_MONOTONIC 1
void sleep_for(long ns);
/* To the next time that is `after` ns behind a multiple of `period` ns since the machine started. */
void sleep_to(long period, long after);
/* PID 1 sleeps so long before it measures: workers and grace periods of boot have run. */
#define SETTLE_NS 2000000000
__attribute__((noreturn)) void power_off(void);

/* A child with a copy of this task's memory; 0 in the child, as fork(). */
long fork_child(void);
__attribute__((noreturn)) void exit_child(long status);
/* Its wait status; -1 where there is no such child. */
int wait_child(long child);

/*
 * Where two tasks on one cpu wait for each other, the scheduler's clock decides from window to
 * window who runs first.  The order is fixed among tasks of SCHED_BATCH, which do not preempt the
 * one that woke them, and so is the path among those of SCHED_FIFO, which needs a privilege.  The
 * kernel's workers get no time while tasks of SCHED_FIFO run, so a case of those settles.
 */
long set_policy(long policy);
/*
 * A task with this task's memory and a stack of its own that calls run() and ends, one at a time;
 * its number, or a negative errno.
 */
long start_task(unsigned long flags, void (*run)(void));
/* CLONE_VM: a child. */
#define SPAWNED 0x100ul
/* FS, FILES, SIGHAND, THREAD, SYSVSEM, PARENT_SETTID and CHILD_CLEARTID too, as glibc's threads. */
#define THREAD 0x350f00ul
/* Waits for a thread's end as pthread_join() does. */
void join_thread(void);
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_PRIVATE 128
/* The task's `number` signals go to the handler. */
long handle_signal(long number, void (*handler)(int));
/* kill() of `process`, this one, with SIGUSR1: the frame of its handler has a fixed place. */
long signal_this(long process);

/* What the kernel says of the machine: the auxiliary vector, elf.h; 0 where it says nothing. */
#define AT_HWCAP 16
#define AT_HWCAP2 26
#define AT_SYSINFO_EHDR 33
unsigned long auxv_value(const unsigned long *auxv, unsigned long type);

#define PAGE_BYTES 4096
#define LINE_BYTES 64
#define PROT_NONE 0
#define PROT_READ 1
#define PROT_READ_WRITE 3
#define PROT_READ_EXEC 5
#define MAP_PRIVATE_ANONYMOUS 0x22
/* Pages of this task alone, readable and writable: their address, or a negative errno. */
long map_pages(long bytes);
#define MAP_SHARED_ANONYMOUS 0x21
/* Memory that children have in common with their parent; null where there is none. */
static inline void *map_shared(long bytes)
{
	long at = syscall_raw(NR_mmap, 0, bytes, PROT_READ_WRITE, MAP_SHARED_ANONYMOUS, -1, 0);

	return (unsigned long)at > -4096ul ? 0 : (void *)at;
}
/* For madvise(): no child has it. */
#define MADV_DONTFORK 10

/* struct sockaddr_un, and the length of what is in it. */
struct unix_address {
	unsigned short family;
	char path[108];
	unsigned int length;
};
/* A socket that listens by a name the kernel chooses (unix(7), autobind), or a negative errno. */
long listen_unix(struct unix_address *address, long backlog);

/* For a case's setup: opens `path`, the first call's first argument is the descriptor. */
long open_for_first(struct work *w, const char *path, int flags);
/* The same for a file in memory with 64 KiB in it, which has been read often. */
long memory_file_for_first(struct work *w);

#endif
