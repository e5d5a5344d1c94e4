/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * arm64: the least that a system call can cost with what Linux promises beside the ABI.  Each
 * instruction says which promise it keeps; files and lines are Linux 6.12.117's, arch/arm64/kernel
 * where no folder is named.
 *
 * The promises:
 *
 *	registers	another task, a signal's handler, ptrace and perf find all registers of user
 *			mode in a struct pt_regs, also while the call is still running: perf's
 *			PERF_SAMPLE_REGS_USER reads them then, so no later save would do
 *			(include/asm/ptrace.h:155, kernel/events/core.c:7099)
 *	restart		a call that a signal interrupted can be made again (signal.c:1447)
 *	work		ptrace, seccomp, audit and tracepoints see the call (syscall.c:109)
 *	latency		interrupts are taken during a call (entry-common.c:844)
 *	table		calls are many, so their handlers are found in a table (sys.c:60)
 *	speculation	a wrong prediction reads nothing outside of the table (syscall.c:48)
 *	exit		a signal, or a task that must run, is not left waiting (entry-common.c:167)
 *
 * A handler is a C function, so it keeps x19 to x29: those are not loaded again.  What changes the
 * saved registers (ptrace, a signal, sigreturn, exec) asks for work at exit, which would load all.
 *
 *			getppid		getpid
 *	entry		25		25
 *	dispatch	12		12
 *	handler		3		2
 *	exit		3		3
 *	return		16		16
 *			59		58
 */
#include "layout.h"

/* struct pt_regs (include/asm/ptrace.h:155): 31 registers, sp, pc, pstate, orig_x0, syscallno. */
#define PT_LR 240
#define PT_PC 256
#define PT_ORIG_X0 272
#define PT_BYTES 336
#define EC_SVC64 0x15 /* ESR_EL1.EC */

.macro UNUSED
	.balign 0x80
	b floor_fault
.endm

	.text
	.balign 2048
	.globl vectors
vectors:
	.rept 8
	UNUSED
	.endr
	.balign 0x80
/* The hardware switches to SP_EL1, which is the top of the task's kernel stack. */
	.globl floor_entry
floor_entry:
	sub sp, sp, #PT_BYTES			/* registers (entry.S:56) */
	stp x0, x1, [sp, #16 * 0]		/* registers (entry.S:205) */
	stp x2, x3, [sp, #16 * 1]		/* registers */
	stp x4, x5, [sp, #16 * 2]		/* registers */
	stp x6, x7, [sp, #16 * 3]		/* registers */
	stp x8, x9, [sp, #16 * 4]		/* registers */
	stp x10, x11, [sp, #16 * 5]		/* registers */
	stp x12, x13, [sp, #16 * 6]		/* registers */
	stp x14, x15, [sp, #16 * 7]		/* registers */
	stp x16, x17, [sp, #16 * 8]		/* registers */
	stp x18, x19, [sp, #16 * 9]		/* registers */
	stp x20, x21, [sp, #16 * 10]		/* registers */
	stp x22, x23, [sp, #16 * 11]		/* registers */
	stp x24, x25, [sp, #16 * 12]		/* registers */
	stp x26, x27, [sp, #16 * 13]		/* registers */
	stp x28, x29, [sp, #16 * 14]		/* registers */
	mrs x9, sp_el0				/* registers (entry.S:223) */
	mrs x10, elr_el1			/* registers (entry.S:282) */
	mrs x11, spsr_el1			/* registers (entry.S:283) */
	stp x30, x9, [sp, #PT_LR]		/* registers (entry.S:284) */
	stp x10, x11, [sp, #PT_PC]		/* registers (entry.S:304) */
	mrs x9, esr_el1				/* hardware: every exception of EL0 comes here, */
	lsr x9, x9, #26				/* hardware: and its class says what it is */
	cmp x9, #EC_SVC64			/* hardware */
	b.eq floor_dispatch			/* hardware; a vector has 32 instructions */
	b floor_fault
	.rept 7
	UNUSED
	.endr

	.globl floor_dispatch
floor_dispatch:
	stp x0, x8, [sp, #PT_ORIG_X0]		/* restart (syscall.c:78, :79) */
	msr daifclr, #3				/* latency */
	ldr x9, [sp, #PT_BYTES + TASK_SYSCALL_WORK]	/* work (syscall.c:76) */
	cbnz x9, floor_work			/* work (syscall.c:109) */
	cmp w8, #CALLS				/* ABI: not every number is a call (syscall.c:46) */
	b.hs floor_no_call			/* ABI */
	ngc x9, xzr				/* speculation (include/asm/barrier.h:88) */
	csdb					/* speculation */
	and w9, w8, w9				/* speculation */
	adr x10, floor_calls			/* table (syscall.c:48) */
	ldr x10, [x10, w9, uxtw #3]		/* table */
	blr x10					/* table (syscall.c:49) */

/* With interrupts masked, no signal can come between the check and eret. */
	.globl floor_exit
floor_exit:
	msr daifset, #3				/* exit (entry-common.c:165) */
	ldr x9, [sp, #PT_BYTES + TASK_EXIT_WORK]	/* exit (entry-common.c:167) */
	cbnz x9, floor_work			/* exit (entry-common.c:168) */
	.globl floor_return
floor_return:
	ldp x10, x11, [sp, #PT_PC]		/* latency: an interrupt has overwritten them */
	msr elr_el1, x10			/* latency (entry.S:412) */
	msr spsr_el1, x11			/* latency (entry.S:413) */
	ldr x1, [sp, #16 * 0 + 8]		/* ABI: all but x0 are as they were (entry.S:414) */
	ldp x2, x3, [sp, #16 * 1]		/* ABI */
	ldp x4, x5, [sp, #16 * 2]		/* ABI */
	ldp x6, x7, [sp, #16 * 3]		/* ABI */
	ldp x8, x9, [sp, #16 * 4]		/* ABI */
	ldp x10, x11, [sp, #16 * 5]		/* ABI */
	ldp x12, x13, [sp, #16 * 6]		/* ABI */
	ldp x14, x15, [sp, #16 * 7]		/* ABI */
	ldp x16, x17, [sp, #16 * 8]		/* ABI */
	ldr x18, [sp, #16 * 9]			/* ABI */
	ldr x30, [sp, #PT_LR]			/* ABI */
	add sp, sp, #PT_BYTES			/* registers (entry.S:448) */
	eret					/* hardware (entry.S:461) */

/* Nothing on the floor asks for work. */
floor_work:
	b floor_fault

floor_no_call:
	mov x0, #ENOSYS_RESULT
	b floor_exit

/*
 * current->real_parent->tgid: the parent can change (kernel/sys.c:984).  Namespaces of process
 * numbers are left out.
 */
	.globl floor_sys_getppid
floor_sys_getppid:
	ldr x9, [sp, #PT_BYTES + TASK_PARENT]
	ldr w0, [x9, #TASK_TGID]
	ret

/* current->tgid */
	.globl floor_sys_getpid
floor_sys_getpid:
	ldr w0, [sp, #PT_BYTES + TASK_TGID]
	ret
