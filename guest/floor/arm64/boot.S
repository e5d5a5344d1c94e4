/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * arm64: from QEMU's boot loader to the kernel half of the address space.
 *
 *	0			the program, 8 MiB		EL0
 *	0x40000000		where this file runs		EL1
 *	0xffffff8000000000	devices				EL1
 *	0xffffff8040000000	memory				EL1
 */
#include "layout.h"

#define HIGH 0xffffff8000000000
#define MEMORY 0x40000000

	.section .boot, "ax"
	.globl floor_start
/* Documentation/arch/arm64/booting.rst */
floor_start:
	b 1f
	.long 0
	.quad 0x200000			/* text_offset */
	.quad _end - floor_start	/* image_size */
	.quad 0xa			/* flags: 4 KiB pages, anywhere */
	.quad 0, 0, 0
	.ascii "ARMd"
	.long 0

1:	mov x20, x0			/* the device tree */
	ldr x0, =0xff00			/* 0: device; 1: memory, write-back */
	msr mair_el1, x0
	/* 39 bits each half, 4 KiB granules, 40 bits physical. */
	ldr x0, =25 | 25 << 16 | 2 << 30 | 2 << 32
	msr tcr_el1, x0
	adrp x0, low_table
	/* Where the table of the program's pages is, only the boot loader knows. */
	adrp x1, user_table
	orr x2, x1, #3
	str x2, [x0]
	msr ttbr0_el1, x0
	adrp x0, high_table
	msr ttbr1_el1, x0
	dsb sy
	isb
	mrs x0, sctlr_el1
	ldr x1, =0x1005			/* MMU and caches on */
	orr x0, x0, x1
	msr sctlr_el1, x0
	isb
	ldr x0, =in_kernel_half
	br x0
	.ltorg

	.text
in_kernel_half:
	ldr x0, =vectors
	msr vbar_el1, x0
	ldr x0, =floor_stack_top
	mov sp, x0
	mov x0, x20
	bl floor_main

	.globl floor_enter_user
floor_enter_user:
	ldr x2, =floor_stack_top
	mov sp, x2
	msr elr_el1, x0
	msr sp_el0, x1
	msr spsr_el1, xzr		/* EL0, no interrupt masked */
	eret
	.ltorg

	.data
/* A block, accessed: a device (never executed), or inner-shareable memory. */
#define DEVICE(address) .quad (address) | 3 << 53 | 0x401
#define KERNEL(address) .quad (address) | 0x705
#define USER(address) .quad (address) | 0x745
	.balign 4096
low_table:
	.quad 0
	KERNEL(MEMORY)
	.zero (512 - 2) * 8
high_table:
	DEVICE(0)
	KERNEL(MEMORY)
	.zero (512 - 2) * 8
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
	.quad 0, 0, floor_task + TASK_BYTES, THE_PID
	.quad 0, 0, 0, THE_PPID
