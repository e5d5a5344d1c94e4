/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * riscv64: from OpenSBI, in supervisor mode, to the kernel half of the address space (Sv39).
 *
 *	0			the program, 8 MiB		user
 *	0x80000000		where this file runs		supervisor
 *	0xffffffc000000000	devices				supervisor
 *	0xffffffc080000000	memory				supervisor
 */
#include "layout.h"

#define HIGH 0xffffffc000000000
#define MEMORY 0x80000000
#define SATP_SV39 8
#define SSTATUS_SUM (1 << 18)		/* the kernel reads the program's memory */
#define SSTATUS_FS_INITIAL (1 << 13)
#define SSTATUS_SPP_SPIE (1 << 8 | 1 << 5)
#define SSTATUS_SPIE (1 << 5)

	.option norvc

	.section .boot, "ax"
	.globl floor_start
/* Documentation/arch/riscv/boot-image-header.rst */
floor_start:
	j 1f
	.word 0
	.dword 0x200000			/* text_offset */
	.dword _end - floor_start	/* image_size */
	.dword 0			/* flags */
	.word 2				/* version 0.2 */
	.word 0
	.dword 0
	.ascii "RISCV\0\0\0"
	.ascii "RSC\x05"
	.word 0

1:	mv s1, a1			/* the device tree */
	la t0, root_table
	/* Where the table of the program's pages is, only the boot loader knows. */
	la t1, user_table
	srli t1, t1, 2
	ori t1, t1, 1
	sd t1, 0(t0)
	srli t0, t0, 12
	li t1, SATP_SV39 << 60
	or t0, t0, t1
	sfence.vma
	csrw satp, t0
	sfence.vma
	la t0, in_kernel_half
	li t1, HIGH
	/* Linked high, this runs low: la finds the low address. */
	or t0, t0, t1
	jr t0

	.text
in_kernel_half:
	la t0, floor_entry
	csrw stvec, t0
	csrw sie, zero
	li t0, SSTATUS_SUM | SSTATUS_FS_INITIAL
	csrs sstatus, t0
	la sp, floor_stack_top
	mv a0, s1
	call floor_main

	.globl floor_enter_user
floor_enter_user:
	csrw sepc, a0
	mv sp, a1
	li t0, SSTATUS_SPP_SPIE		/* to user mode, */
	csrc sstatus, t0
	li t0, SSTATUS_SPIE		/* with interrupts */
	csrs sstatus, t0
	la t0, floor_task
	csrw sscratch, t0
	sret

	.data
/* Valid, accessed, dirty; what a page at physical `address` may be used for. */
#define DEVICE(address) .dword (address) >> 2 | 0xc7
#define KERNEL(address) .dword (address) >> 2 | 0xcf
#define USER(address) .dword (address) >> 2 | 0xdf
	.balign 4096
root_table:
	.dword 0, 0
	KERNEL(MEMORY)
	.zero (256 - 3) * 8
	DEVICE(0)
	.dword 0
	KERNEL(MEMORY)
	.zero (512 - 259) * 8
user_table:
	USER(MEMORY + USER_OFFSET)
	USER(MEMORY + USER_OFFSET + 0x200000)
	USER(MEMORY + USER_OFFSET + 0x400000)
	USER(MEMORY + USER_OFFSET + 0x600000)
	.zero (512 - 4) * 8
	.zero STACK_BYTES
	.globl floor_stack_top, floor_task
floor_stack_top:
/* floor:linux: its task; the parent is the task behind it. */
floor_task:
	.dword 0, 0, floor_task + TASK_BYTES, THE_PID
	.dword 0, 0, 0, THE_PPID
