/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x86-64: the least that a system call can cost with what Linux promises beside the ABI.  Each
 * instruction says which promise it keeps; files and lines are Linux 6.12.117's, arch/x86/entry where
 * no folder is named.
 *
 * The promises are those of arm64/linux.S:
 *
 *	registers	all of them are in a struct pt_regs while the call runs
 *			(../include/asm/ptrace.h: struct pt_regs), on the task's kernel stack
 *	restart		a call that a signal interrupted can be made again (../kernel/signal.c)
 *	work		ptrace, seccomp, audit and tracepoints see the call
 *			(include/linux/entry-common.h:44)
 *	latency		interrupts are taken during a call
 *	table		calls are many; 6.12 has a switch in place of a table (syscall_64.c:30)
 *	speculation	a wrong prediction reads nothing outside of the table (common.c:46)
 *	exit		a signal, or a task that must run, is not left waiting
 *			(include/linux/entry-common.h:65)
 *
 * A handler is a C function, so it keeps rbx, rbp and r12 to r15: those are not loaded again.  What
 * changes the saved registers (ptrace, a signal, sigreturn, exec) asks for work at exit, which would
 * load all, and leave by iret where sysret cannot.
 *
 *			getppid		getpid
 *	entry		24		24
 *	dispatch	9		9
 *	handler		3		2
 *	exit		3		3
 *	return		11		11
 *			50		49
 */
#include "layout.h"

/* struct pt_regs, from r15 up. */
#define PT_R11 48
#define PT_R10 56
#define PT_R9 64
#define PT_R8 72
#define PT_RDX 96
#define PT_RSI 104
#define PT_RDI 112
#define PT_RIP 128
#define PT_RSP 152
#define PT_BYTES 168
#define CPU_STACK_TOP 0
#define CPU_USER_STACK 8
#define USER_DS 0x2b
#define USER_CS 0x33

	.text
	.globl floor_entry
floor_entry:
	swapgs				/* registers: finds the kernel's stack (entry_64.S:91) */
	mov %rsp, %gs:CPU_USER_STACK	/* registers (entry_64.S:93) */
	mov %gs:CPU_STACK_TOP, %rsp	/* registers (entry_64.S:95) */
	push $USER_DS			/* registers (entry_64.S:101) */
	push %gs:CPU_USER_STACK		/* registers (entry_64.S:102) */
	push %r11			/* registers (entry_64.S:103) */
	push $USER_CS			/* registers (entry_64.S:104) */
	push %rcx			/* registers (entry_64.S:105) */
	push %rax			/* restart (entry_64.S:107) */
	push %rdi			/* registers (calling.h:76) */
	push %rsi			/* registers */
	push %rdx			/* registers */
	push %rcx			/* registers */
	push $ENOSYS_RESULT		/* work: what a tracer sees before the call (entry_64.S:109) */
	push %r8			/* registers */
	push %r9			/* registers */
	push %r10			/* registers */
	push %r11			/* registers */
	push %rbx			/* registers */
	push %rbp			/* registers */
	push %r12			/* registers */
	push %r13			/* registers */
	push %r14			/* registers */
	push %r15			/* registers (calling.h:91) */
	.globl floor_dispatch
floor_dispatch:
	sti				/* latency (include/linux/entry-common.h:197) */
	mov %r10, %rcx			/* ABI: C has the fourth argument there */
	cmpq $0, PT_BYTES + TASK_SYSCALL_WORK(%rsp)	/* work (include/linux/entry-common.h:167) */
	jne floor_work			/* work */
	cmp $CALLS, %eax		/* ABI: not every number is a call (common.c:45) */
	jae floor_no_call		/* ABI */
	sbb %r11d, %r11d		/* speculation (../include/asm/barrier.h:36) */
	and %r11d, %eax			/* speculation */
	call *floor_calls(, %rax, 8)	/* table */

/* With interrupts off, no signal can come between the check and sysret. */
	.globl floor_exit
floor_exit:
	cli				/* exit (include/linux/entry-common.h: syscall_exit_to_user_mode) */
	cmpq $0, PT_BYTES + TASK_EXIT_WORK(%rsp)	/* exit (include/linux/entry-common.h:326) */
	jne floor_work			/* exit (include/linux/entry-common.h:327) */
	.globl floor_return
floor_return:
	mov PT_R11(%rsp), %r11		/* hardware: sysret takes the flags from there */
	mov PT_R10(%rsp), %r10		/* ABI: all but rax, rcx, r11 are as they were */
	mov PT_R9(%rsp), %r9		/* ABI */
	mov PT_R8(%rsp), %r8		/* ABI */
	mov PT_RIP(%rsp), %rcx		/* hardware: sysret takes the address from there */
	mov PT_RDX(%rsp), %rdx		/* ABI */
	mov PT_RSI(%rsp), %rsi		/* ABI */
	mov PT_RDI(%rsp), %rdi		/* ABI */
	mov PT_RSP(%rsp), %rsp		/* registers (entry_64.S:161) */
	swapgs				/* registers (entry_64.S:164) */
	sysretq				/* hardware (entry_64.S:166) */

/* Nothing on the floor asks for work. */
floor_work:
	jmp floor_fault

floor_no_call:
	mov $ENOSYS_RESULT, %rax
	jmp floor_exit

/*
 * current->real_parent->tgid: the parent can change (kernel/sys.c:984).  Namespaces of process
 * numbers are left out.  The call has pushed 8 bytes.
 */
	.globl floor_sys_getppid
floor_sys_getppid:
	mov PT_BYTES + 8 + TASK_PARENT(%rsp), %rax
	mov TASK_TGID(%rax), %eax
	ret

/* current->tgid */
	.globl floor_sys_getpid
floor_sys_getpid:
	mov PT_BYTES + 8 + TASK_TGID(%rsp), %eax
	ret
