// SPDX-License-Identifier: GPL-2.0-or-later
/* What the probe needs of a system beside its windows; system.h says what each function does. */
#include "arch.h"
#include "system.h"
#include "window.h"

/*
 * After so many reads the kernel has all pages of a file among its active ones; each read does
 * something else until then (folio_mark_accessed(), mm/swap.c: in batches of 15 or 31).
 */
#define READS_TO_SETTLE 16

#define THREAD_STACK 16384

#define LINUX_REBOOT_MAGIC1 0xfee1deadL
#define LINUX_REBOOT_MAGIC2 672274793L
#define LINUX_REBOOT_CMD_POWER_OFF 0x4321fedcL
#define TIMER_ABSTIME 1
#define NS_A_SECOND 1000000000

char buffer[4096] IN_PAGES;
char pages[PAGES_SIZE] IN_PAGES;

long syscall_raw(long nr, long a, long b, long c, long d, long e, long f)
{
	return syscall6(nr, a, b, c, d, e, f);
}

void sleep_for(long ns)
{
	const long time[2] = { ns / NS_A_SECOND, ns % NS_A_SECOND };

	SYS(nanosleep, time, 0, 0, 0);
}

void sleep_to(long period, long after)
{
	long time[2], ns;

	if (SYS(clock_gettime, CLOCK_MONOTONIC, time, 0, 0))
		return;
	ns = time[0] * NS_A_SECOND + time[1] - after;
	ns += period - ns % period + after;
	time[0] = ns / NS_A_SECOND;
	time[1] = ns % NS_A_SECOND;
	SYS(clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, time, 0);
}

void power_off(void)
{
	SYS(reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF, 0);
	/* No way to power off: sleep, and let the machine's owner end it. */
	for (;;)
		sleep_for(NS_A_SECOND);
}

long fork_child(void)
{
	return SYS(clone, SIGCHLD, 0, 0, 0);
}

void exit_child(long status)
{
	SYS(exit, status, 0, 0, 0);
	__builtin_unreachable();
}

int wait_child(long child)
{
	int status = -1;

	if (child > 0)
		SYS(wait4, child, &status, 0, 0);
	return status;
}

long set_policy(long policy)
{
	const int priority = policy == SCHED_FIFO;

	return SYS(sched_setscheduler, 0, policy, &priority, 0);
}

/* The kernel clears it and wakes who waits when the thread has ended (CLONE_CHILD_CLEARTID). */
static volatile int thread FOR_KERNEL;

long start_task(unsigned long flags, void (*run)(void))
{
	static char stack[THREAD_STACK] IN_PAGES;
	/* struct clone_args, up to tls: flags, pidfd, child_tid, parent_tid, exit_signal, stack. */
	static long arguments[8] FOR_KERNEL = { 0, 0,		(long)&thread, (long)&thread,
						0, (long)stack, sizeof(stack) };

	arguments[0] = (long)flags;
	arguments[4] = flags == SPAWNED ? SIGCHLD : 0;
	return clone3_call(NR_clone3, arguments, sizeof(arguments), run);
}

void join_thread(void)
{
	for (int number = thread; number; number = thread)
		SYS(futex, &thread, FUTEX_WAIT, number, 0);
}

#ifdef ARCH_SA_RESTORER
void signal_return(void);
__asm__("signal_return:\n\t" ARCH_SIGNAL_RETURN);
#else
#define ARCH_SA_RESTORER 0
#define signal_return 0
#endif

/* struct sigaction: riscv64's has no restorer, but then the mask, which is empty. */
long handle_signal(long number, void (*handler)(int))
{
	const long action[4] = { (long)handler, ARCH_SA_RESTORER, (long)signal_return, 0 };

	return SYS(rt_sigaction, number, action, 0, sizeof(action[3]));
}

long signal_this(long process)
{
	return syscall_on(probe_stack + PROBE_STACK / 2, NR_kill, process, SIGUSR1);
}

unsigned long auxv_value(const unsigned long *auxv, unsigned long type)
{
	for (; auxv[0]; auxv += 2)
		if (auxv[0] == type)
			return auxv[1];
	return 0;
}

long map_pages(long bytes)
{
	return syscall_raw(NR_mmap, 0, bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
}

long listen_unix(struct unix_address *address, long backlog)
{
	long fd = SYS(socket, AF_UNIX, SOCK_STREAM, 0, 0), err;

	address->family = AF_UNIX;
	address->length = sizeof(address->family) + sizeof(address->path);
	err = fd < 0 ? fd : SYS(bind, fd, address, sizeof(address->family), 0);
	if (!err)
		err = SYS(getsockname, fd, address, &address->length, 0);
	if (!err)
		err = SYS(listen, fd, backlog, 0, 0);
	return err ? err : fd;
}

long open_for_first(struct work *w, const char *path, int flags)
{
	long fd = SYS(openat, AT_FDCWD, path, flags, 0);

	w->first.args[0] = fd;
	return fd < 0 ? fd : 0;
}

long memory_file_for_first(struct work *w)
{
	long fd = SYS(memfd_create, "kentry", 0, 0, 0);
	long size = PAGES_SIZE, got;

	w->first.args[0] = fd;
	if (fd < 0)
		return fd;
	for (long i = 0; i < size; i++)
		pages[i] = (char)(i | 1);
	got = SYS(pwrite64, fd, pages, size, 0);
	for (int i = 0; i < READS_TO_SETTLE && got == size; i++)
		got = SYS(pread64, fd, pages, size, 0);
	return got == size ? 0 : got < 0 ? got : -1;
}
