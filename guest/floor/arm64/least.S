/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * arm64: the least that a system call can cost.  Each instruction says who demands it: the
 * hardware (Arm ARM), or the ABI (guest/arch/arm64/arch.h): the number comes in x8, the result
 * goes back in x0, all other registers are as they were.
 *
 *			getppid		getpid
 *	entry		5		5
 *	dispatch	2		4
 *	handler		1		1
 *	return		2		2
 *			10		12
 */
#include "layout.h"

#define NR_GETPID 172
#define NR_GETPPID 173
#define EC_SVC64 0x15 /* ESR_EL1.EC */
#define CALLER_SAVED 176

/* A vector that nothing comes to. */
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
/*
 * Synchronous, from EL0.  The hardware has kept the program's address, flags and stack in
 * ELR_EL1, SPSR_EL1 and SP_EL0, and nothing here changes them.
 */
	.globl floor_entry
floor_entry:
	msr tpidr_el1, x9		/* ABI: x9 is the program's */
	mrs x9, esr_el1			/* hardware: every exception of EL0 comes here, */
	lsr x9, x9, #26			/* hardware: and its class says what it is */
	cmp x9, #EC_SVC64		/* hardware */
	b.ne floor_fault		/* hardware */
	.globl floor_dispatch
floor_dispatch:
	cmp w8, #NR_GETPPID		/* ABI: the number says which call it is */
	b.ne floor_dispatch_second	/* ABI */
	.globl floor_sys_getppid
floor_sys_getppid:
	mov x0, #THE_PPID		/* ABI: the result */
	.globl floor_return
floor_return:
	mrs x9, tpidr_el1		/* ABI: x9 is the program's */
	eret				/* hardware */
	.globl floor_dispatch_second
floor_dispatch_second:
	cmp w8, #NR_GETPID		/* ABI: the number says which call it is */
	b.ne floor_other		/* ABI */
	.globl floor_sys_getpid
floor_sys_getpid:
	mov x0, #THE_PID		/* ABI: the result */
	.globl floor_return_second
floor_return_second:
	mrs x9, tpidr_el1		/* ABI: x9 is the program's */
	eret				/* hardware */
	.rept 7
	UNUSED
	.endr

/* Any other call, in C; not measured.  Interrupts stay masked, so nothing overwrites ELR_EL1. */
	.globl floor_other
floor_other:
	mrs x9, tpidr_el1
	sub sp, sp, #CALLER_SAVED
	stp x1, x2, [sp]
	stp x3, x4, [sp, #16]
	stp x5, x6, [sp, #32]
	stp x7, x8, [sp, #48]
	stp x9, x10, [sp, #64]
	stp x11, x12, [sp, #80]
	stp x13, x14, [sp, #96]
	stp x15, x16, [sp, #112]
	stp x17, x18, [sp, #128]
	stp x29, x30, [sp, #144]
	mov x6, x8
	bl floor_call
	ldp x1, x2, [sp]
	ldp x3, x4, [sp, #16]
	ldp x5, x6, [sp, #32]
	ldp x7, x8, [sp, #48]
	ldp x9, x10, [sp, #64]
	ldp x11, x12, [sp, #80]
	ldp x13, x14, [sp, #96]
	ldp x15, x16, [sp, #112]
	ldp x17, x18, [sp, #128]
	ldp x29, x30, [sp, #144]
	add sp, sp, #CALLER_SAVED
	eret
