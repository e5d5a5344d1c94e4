/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * riscv64: the least that a system call can cost.  Each instruction says who demands it: the
 * hardware (the privileged specification, 4.1), or the ABI (guest/arch/riscv64/arch.h): the number
 * comes in a7, the result goes back in a0, all other registers are as they were.
 *
 *			getppid		getpid
 *	entry		7		7
 *	dispatch	2		4
 *	handler		1		1
 *	return		2		2
 *			12		14
 */
#include "layout.h"

#define NR_GETPID 172
#define NR_GETPPID 173
#define CAUSE_ECALL_U 8 /* scause */

	.text
	.balign 4
/* The hardware has kept the program's address in sepc; no interrupt is taken meanwhile. */
	.globl floor_entry
floor_entry:
	csrw sscratch, t0		/* ABI: t0 is the program's */
	csrr t0, scause			/* hardware: every trap comes here, */
	addi t0, t0, -CAUSE_ECALL_U	/* hardware: and its cause says what it is */
	bnez t0, floor_fault		/* hardware */
	csrr t0, sepc			/* hardware: it is the ecall's own address, */
	addi t0, t0, 4			/* hardware: and the program goes on behind it */
	csrw sepc, t0			/* hardware */
	.globl floor_dispatch
floor_dispatch:
	addi t0, a7, -NR_GETPPID	/* ABI: the number says which call it is */
	bnez t0, floor_dispatch_second	/* ABI */
	.globl floor_sys_getppid
floor_sys_getppid:
	li a0, THE_PPID			/* ABI: the result */
	.globl floor_return
floor_return:
	csrr t0, sscratch		/* ABI: t0 is the program's */
	sret				/* hardware */
	.globl floor_dispatch_second
floor_dispatch_second:
	addi t0, a7, -NR_GETPID		/* ABI: the number says which call it is */
	bnez t0, floor_other		/* ABI */
	.globl floor_sys_getpid
floor_sys_getpid:
	li a0, THE_PID			/* ABI: the result */
	.globl floor_return_second
floor_return_second:
	csrr t0, sscratch		/* ABI: t0 is the program's */
	sret				/* hardware */

/* Any other call, in C; not measured. */
	.globl floor_other
floor_other:
	csrr t0, sscratch
	csrw sscratch, sp
	la sp, floor_stack_top
	addi sp, sp, -128
	sd ra, 0(sp)
	sd t0, 8(sp)
	sd t1, 16(sp)
	sd t2, 24(sp)
	sd a1, 32(sp)
	sd a2, 40(sp)
	sd a3, 48(sp)
	sd a4, 56(sp)
	sd a5, 64(sp)
	sd a6, 72(sp)
	sd a7, 80(sp)
	sd t3, 88(sp)
	sd t4, 96(sp)
	sd t5, 104(sp)
	sd t6, 112(sp)
	mv a6, a7
	call floor_call
	ld ra, 0(sp)
	ld t0, 8(sp)
	ld t1, 16(sp)
	ld t2, 24(sp)
	ld a1, 32(sp)
	ld a2, 40(sp)
	ld a3, 48(sp)
	ld a4, 56(sp)
	ld a5, 64(sp)
	ld a6, 72(sp)
	ld a7, 80(sp)
	ld t3, 88(sp)
	ld t4, 96(sp)
	ld t5, 104(sp)
	ld t6, 112(sp)
	csrr sp, sscratch
	sret
