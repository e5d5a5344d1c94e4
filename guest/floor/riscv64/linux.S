/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * riscv64: the least that a system call can cost with what Linux promises beside the ABI.  Each
 * instruction says which promise it keeps; files and lines are Linux 6.12.117's, arch/riscv/kernel
 * where no folder is named.
 *
 * The promises are those of arm64/linux.S:
 *
 *	registers	all of them are in a struct pt_regs while the call runs (include/asm/ptrace.h:15)
 *	restart		a call that a signal interrupted can be made again (traps.c:336,
 *			signal.c:401 reads the cause)
 *	work		ptrace, seccomp, audit and tracepoints see the call
 *			(include/linux/entry-common.h:44)
 *	latency		interrupts are taken during a call, and come to the same vector
 *	table		calls are many, so their handlers are found in a table (syscall_table.c:21)
 *	speculation	a wrong prediction reads nothing outside of the table (traps.c:346)
 *	exit		a signal, or a task that must run, is not left waiting
 *			(include/linux/entry-common.h:65)
 *
 * A handler is a C function, so it keeps s0 to s11 and gp: those are not loaded again.  What changes
 * the saved registers (ptrace, a signal, sigreturn, exec) asks for work at exit, which would load all.
 *
 *			getppid		getpid
 *	entry		44		44
 *	dispatch	14		14
 *	handler		3		2
 *	exit		3		3
 *	return		23		23
 *			87		86
 */
#include "layout.h"

/* struct pt_regs (include/asm/ptrace.h:15): epc, x1 to x31, status, badaddr, cause, orig_a0. */
#define PT_EPC 0
#define PT_X(n) (8 * (n))
#define PT_STATUS 256
#define PT_CAUSE 272
#define PT_ORIG_A0 280
#define PT_BYTES 288
#define CAUSE_ECALL_U 8 /* scause */
#define SSTATUS_SIE 2

	.text
	.balign 4
/* sscratch is the task, which lies at the top of its kernel stack; 0 while the kernel runs. */
	.globl floor_entry
floor_entry:
	csrrw tp, sscratch, tp		/* registers (entry.S:104) */
	beqz tp, floor_fault		/* latency: an interrupt comes here too (entry.S:105) */
	sd sp, PT_X(2) - PT_BYTES(tp)	/* registers (entry.S:136) */
	addi sp, tp, -PT_BYTES		/* registers (entry.S:137, :138) */
	sd x1, PT_X(1)(sp)		/* registers (entry.S:139) */
	.irp n, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	sd x\n, PT_X(\n)(sp)		/* registers, 28 (entry.S:140 to :142) */
	.endr
	csrr t0, sstatus		/* registers (entry.S:154) */
	sd t0, PT_STATUS(sp)		/* registers (entry.S:160) */
	csrrw t0, sscratch, zero	/* latency: traps from now on are the kernel's (entry.S:170) */
	sd t0, PT_X(4)(sp)		/* registers (entry.S:164) */
	csrr t0, sepc			/* hardware: it is the ecall's own address, */
	addi t0, t0, 4			/* hardware: and the program goes on behind it (traps.c:335) */
	sd t0, PT_EPC(sp)		/* registers (entry.S:161) */
	csrr t0, scause			/* hardware: every trap comes here */
	sd t0, PT_CAUSE(sp)		/* restart (entry.S:163) */
	addi t0, t0, -CAUSE_ECALL_U	/* hardware: its cause says what it is */
	bnez t0, floor_fault		/* hardware */
	.globl floor_dispatch
floor_dispatch:
	sd a0, PT_ORIG_A0(sp)		/* restart (traps.c:336) */
	csrsi sstatus, SSTATUS_SIE	/* latency (include/linux/entry-common.h:197) */
	ld t0, TASK_SYSCALL_WORK(tp)	/* work (include/linux/entry-common.h:167) */
	bnez t0, floor_work		/* work */
	sltiu t0, a7, CALLS		/* ABI: not every number is a call (traps.c:345) */
	beqz t0, floor_no_call		/* ABI */
	neg t0, t0			/* speculation (traps.c:346) */
	and t0, t0, a7			/* speculation */
	slli t0, t0, 3			/* table */
	la t1, floor_calls		/* table, 2 (include/asm/syscall.h:82) */
	add t0, t0, t1			/* table */
	ld t0, 0(t0)			/* table */
	jalr t0				/* table */

/* With interrupts off, no signal can come between the check and sret. */
	.globl floor_exit
floor_exit:
	csrci sstatus, SSTATUS_SIE	/* exit (include/linux/entry-common.h: syscall_exit_to_user_mode) */
	ld t0, TASK_EXIT_WORK(tp)	/* exit (include/linux/entry-common.h:326) */
	bnez t0, floor_work		/* exit (include/linux/entry-common.h:327) */
	.globl floor_return
floor_return:
	csrw sscratch, tp		/* registers: for the next entry (entry.S:243) */
	ld t0, PT_STATUS(sp)		/* latency: an interrupt has overwritten it (entry.S:249) */
	csrw sstatus, t0		/* latency (entry.S:270) */
	ld t0, PT_EPC(sp)		/* latency: an interrupt has overwritten it (entry.S:267) */
	csrw sepc, t0			/* latency (entry.S:271) */
	ld x1, PT_X(1)(sp)		/* ABI: all but a0 are as they were (entry.S:273) */
	.irp n, 5, 6, 7, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31
	ld x\n, PT_X(\n)(sp)		/* ABI, 14 (entry.S:276, :277) */
	.endr
	ld tp, PT_X(4)(sp)		/* registers (entry.S:275) */
	ld sp, PT_X(2)(sp)		/* registers (entry.S:279) */
	sret				/* hardware */

/* Nothing on the floor asks for work. */
floor_work:
	j floor_fault

floor_no_call:
	li a0, ENOSYS_RESULT
	j floor_exit

/*
 * current->real_parent->tgid: the parent can change (kernel/sys.c:984).  Namespaces of process
 * numbers are left out.
 */
	.globl floor_sys_getppid
floor_sys_getppid:
	ld t0, TASK_PARENT(tp)
	lw a0, TASK_TGID(t0)
	ret

/* current->tgid */
	.globl floor_sys_getpid
floor_sys_getpid:
	lw a0, TASK_TGID(tp)
	ret
