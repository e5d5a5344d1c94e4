/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x86-64: the least that a system call can cost.  Each instruction says who demands it: the
 * hardware (Intel SDM, SYSCALL and SYSRET), or the ABI (guest/arch/x86_64/arch.h): the number comes
 * in rax, the result goes back there, rcx and r11 are lost, all other registers are as they were.
 *
 *			getppid		getpid
 *	dispatch	2		4
 *	handler		1		1
 *	return		1		1
 *			4		6
 *
 * Nothing is left for an entry: syscall comes here for nothing else, has kept the program's address
 * and flags in rcx and r11, where sysret wants them, and touches no stack.
 */
#include "layout.h"

#define NR_GETPID 39
#define NR_GETPPID 110

	.text
	.globl floor_entry, floor_dispatch
floor_entry:
floor_dispatch:
	cmp $NR_GETPPID, %eax		/* ABI: the number says which call it is */
	jne floor_dispatch_second	/* ABI */
	.globl floor_sys_getppid
floor_sys_getppid:
	mov $THE_PPID, %eax		/* ABI: the result */
	.globl floor_return
floor_return:
	sysretq				/* hardware */
	.globl floor_dispatch_second
floor_dispatch_second:
	cmp $NR_GETPID, %eax		/* ABI: the number says which call it is */
	jne floor_other			/* ABI */
	.globl floor_sys_getpid
floor_sys_getpid:
	mov $THE_PID, %eax		/* ABI: the result */
	.globl floor_return_second
floor_return_second:
	sysretq				/* hardware */

/* Any other call, in C; not measured. */
	.globl floor_other
floor_other:
	mov %rsp, floor_user_stack(%rip)
	mov $floor_stack_top, %rsp
	push %rcx
	push %r11
	push %rdi
	push %rsi
	push %rdx
	push %r10
	push %r8
	push %r9
	sub $8, %rsp
	push %rax
	mov %r10, %rcx
	call floor_call
	add $16, %rsp
	pop %r9
	pop %r8
	pop %r10
	pop %rdx
	pop %rsi
	pop %rdi
	pop %r11
	pop %rcx
	mov floor_user_stack(%rip), %rsp
	sysretq
