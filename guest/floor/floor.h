/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The floor: what each architecture's machine.h and assembly have, and what main.c gives them. */
#ifndef KENTRY_FLOOR_H
#define KENTRY_FLOOR_H

/* What the boot loader handed over; addresses of the kernel half. */
struct handed {
	const char *words; /* the command line */
	const char *files, *files_end;
};

/* Called by boot.S with what the boot loader left in a register. */
__attribute__((noreturn)) void floor_main(unsigned long boot);
/* boot.S: to user mode, on that stack. */
__attribute__((noreturn)) void floor_enter_user(unsigned long entry, unsigned long stack);
/* For what is no system call: says so, as a kernel that panics, and switches the machine off. */
__attribute__((noreturn)) void floor_fault(void);
/* least.S: a call other than getpid and getppid; of that, nothing is measured. */
long floor_call(long a, long b, long c, long d, long e, long f, long nr);

#endif
