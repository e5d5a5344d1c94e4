/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The plugin's self-test for riscv64: windows whose instructions are counted by hand.
 *
 * Everything runs in supervisor mode under Sv39, in 1 GiB pages, except the firmware.
 * Physical 0x80000000 is mapped five times:
 *
 *	0x80000000		the program: marks and messages		counted as user
 *	0x40000000, 0xc0000000	the page .aliased: marks		counted as user
 *	0xffffffc080000000	the page .counted			counted as kernel
 *	0xffffffc0c0000000	.counted once more			counted as kernel
 *
 * A page runs in one half of the address space only: QEMU 10 and later translate a
 * physical page once for all its mappings.  The first page runs in machine mode, with
 * firmware=80000000-80001000.
 *
 * The guest's own count is minstret: instructions retired, so one less for each fault.
 */
#include "marks.h"

#define MARK_BASE 0xABC00
#define HIGH 0xffffffc000000000
#define LOOPS 1000
#define UNMAPPED 0x100000000
#define UART_STATUS 5 /* offset from 0x10000000 */

.macro MARK number
	lui x0, MARK_BASE + \number
.endm

/* Sends a line to the plugin. */
.macro SAY text
	.pushsection .data
9:	.asciz "\text"
	.popsection
	la a0, 9b
	jal send
.endm

/* Sends "clock NAME HEX", HEX from s6 - s2: what the guest itself counted. */
.macro SAY_CLOCK name
	SAY "clock \name "
	sub a0, s6, s2
	jal send_hex
.endm

/* One window, user side 1: calls `function` in .counted, at the high address. */
.macro WINDOW function
	la s7, \function
	add s7, s7, s8
	MARK MARK_BEGIN
	jalr s9, s7
	MARK MARK_END
.endm

	.option norvc
	.option norelax

/* --- machine mode: counted as firmware --------------------------------- */

	.section .firmware, "ax"
	.globl _start
_start:
	la t0, machine_trap
	csrw mtvec, t0
	li t0, -1
	csrw pmpaddr0, t0
	li t0, 0x1f			/* all of memory, for everyone */
	csrw pmpcfg0, t0
	li t0, 0xb000			/* page faults are the supervisor's */
	csrw medeleg, t0
	li t0, 7
	csrw mcounteren, t0
	la t0, root_table
	srli t0, t0, 12
	li t1, 8 << 60			/* Sv39 */
	or t0, t0, t1
	csrw satp, t0
	sfence.vma
	li t0, 0x1800
	csrc mstatus, t0
	li t0, 0x800			/* mret goes to supervisor mode */
	csrs mstatus, t0
	la t0, main
	csrw mepc, t0
	mret

/* ecall: 4 instructions. */
	.balign 4
machine_trap:
	csrr t0, mepc
	addi t0, t0, 4
	csrw mepc, t0
	mret

/* --- the program: counted as user --------------------------------------- */

	.text
main:
	li s8, HIGH
	la t0, supervisor_trap
	add t0, t0, s8
	csrw stvec, t0

	/* Windows begun before the instrumentation is there are spoilt, not counted wrongly. */
	SAY "case reset count 1\n"
	li s10, 50
	MARK MARK_COUNT
1:	WINDOW counted_short
	addi s10, s10, -1
	bnez s10, 1b

	SAY "case fault count 1\n"
	li s4, UNMAPPED
	WINDOW counted_fault
	SAY_CLOCK fault

	SAY "case mmio count 1\n"
	li s4, HIGH + 0x10000000
	WINDOW counted_mmio
	SAY_CLOCK mmio

	SAY "case firmware count 1\n"
	WINDOW counted_firmware

	/* 100 windows whose marks and counted code run at one address, and at another. */
	SAY "case alias count 1\n"
	li s10, 100
1:	la s7, counted_short
	add s7, s7, s8
	la t0, aliased
	li t1, 0x40000000		/* 0x80000000 -> 0x40000000 */
	sub t0, t0, t1
	jalr t0
	la s7, counted_short
	add s7, s7, s8
	li t1, 0x40000000
	add s7, s7, t1			/* 0x...80000000 -> 0x...c0000000 */
	la t0, aliased
	add t0, t0, t1			/* 0x80000000 -> 0xc0000000 */
	jalr t0
	addi s10, s10, -1
	bnez s10, 1b

	MARK MARK_PATH
	SAY "case mmio path 1\n"
	li s4, HIGH + 0x10000000
	WINDOW counted_mmio
	SAY "case metrics path 1\n"
	la s4, buffer
	WINDOW counted_metrics
	WINDOW counted_metrics

	MARK MARK_IDLE
	SAY "case idle count 1\n"
	WINDOW counted_mmio
	SAY "end 7\n"

	li t0, 0x100000			/* the virt machine's test device: power off */
	li t1, 0x5555
	sw t1, 0(t0)
1:	j 1b

/* Sends the string at a0, bit by bit. */
send:
	lbu t0, 0(a0)
	beqz t0, 3f
	li t1, 8
1:	andi t2, t0, 0x80
	slli t0, t0, 1
	beqz t2, 2f
	MARK MARK_BIT1
	j 4f
2:	MARK MARK_BIT0
4:	addi t1, t1, -1
	bnez t1, 1b
	addi a0, a0, 1
	j send
3:	ret

/* Sends a0 as 16 hexadecimal digits and a newline. */
send_hex:
	la t3, number
	addi t4, t3, 16
	la t5, digits
1:	srli t0, a0, 60
	slli a0, a0, 4
	add t0, t0, t5
	lbu t0, 0(t0)
	sb t0, 0(t3)
	addi t3, t3, 1
	bne t3, t4, 1b
	la a0, number
	j send

/* Runs at 0x40000000 and at 0xc0000000; user side 1, kernel side counted_short's. */
	.section .aliased, "ax"
aliased:
	MARK MARK_BEGIN
	jalr s9, s7
	MARK MARK_END
	ret

/* --- counted as kernel --------------------------------------------------- */

	.section .counted, "ax"

/* A page fault: 4 instructions. */
	.balign 4
supervisor_trap:
	csrr t0, sepc
	addi t0, t0, 4
	csrw sepc, t0
	sret

/* 3 */
counted_short:
	addi s11, s11, 1
	addi s11, s11, 1
	jr s9

/* 4 + 1000 * (10, one of them faulting, + 4 in supervisor_trap) = 14004; faults: 1000 */
counted_fault:
	rdinstret s2
	li s3, LOOPS
1:	addi s11, s11, 1
	addi s11, s11, 1
	addi s11, s11, 1
	addi s11, s11, 1
	ld t1, 0(s4)
	addi s11, s11, 1
	addi s11, s11, 1
	addi s11, s11, 1
	addi s3, s3, -1
	bnez s3, 1b
	rdinstret s6
	jr s9

/* 4 + 1000 * 8 = 8004: a device is read in mid-block */
counted_mmio:
	rdinstret s2
	li s3, LOOPS
1:	addi s11, s11, 1
	addi s11, s11, 1
	addi s11, s11, 1
	lbu t1, UART_STATUS(s4)
	addi s11, s11, 1
	addi s11, s11, 1
	addi s3, s3, -1
	bnez s3, 1b
	rdinstret s6
	jr s9

/* 2 + 1000 * 4 = 4002, and 1000 * 4 of firmware */
counted_firmware:
	li s3, LOOPS
1:	addi s11, s11, 1
	ecall
	addi s3, s3, -1
	bnez s3, 1b
	jr s9

/*
 * 21 instructions:
 *	loads: ld, ld, lw, lbu, amoadd, lr: 6, of 8 + 8 + 4 + 1 + 8 + 8 = 37 bytes
 *	stores: sd, sw, sh, amoadd, sc: 5, of 8 + 4 + 2 + 8 + 8 = 30 bytes
 *	atomics: amoadd, lr, sc; the stack: bytes 992 to 1023 of the buffer
 *	branches: bnez, beqz, jal, ret, j, jr, jr: all but bnez are taken; the first jr is far,
 *	the second is indirect
 *	lines of 64 bytes: of data 0, 1, 2, 15, 31, of code 2
 */
	.balign 128
counted_metrics:
	addi sp, s4, 1024
	sd t1, -32(sp)
	ld t1, -8(sp)
	ld t0, 0(s4)
	lw t1, 60(s4)
	lbu t2, 64(s4)
	sw t1, 128(s4)
	sh t1, 2046(s4)
	amoadd.d t3, t1, (s4)
1:	lr.d t4, (s4)
	sc.d t5, t4, (s4)
	bnez t5, 1b
	beqz t5, 2f
	nop
2:	jal 3f
	j 4f
3:	ret
4:	auipc t6, 0
	jr 12(t6)
	nop
	fence.i
	csrw sscratch, x0
	jr s9

/* --- data ------------------------------------------------------------------ */

	.data
digits:	.ascii "0123456789abcdef"
number:	.ascii "0123456789abcdef\n\0"
	.balign 4096
buffer:	.zero 4096

/* Valid, accessed, dirty; what a gigabyte at physical `address` may be used for. */
#define DEVICE(address) .dword (address) >> 2 | 0xc7
#define MEMORY(address) .dword (address) >> 2 | 0xcf
	.balign 4096
root_table:
	DEVICE(0)
	MEMORY(0x80000000)
	MEMORY(0x80000000)
	MEMORY(0x80000000)
	.zero (256 - 4) * 8
	DEVICE(0)
	.dword 0
	MEMORY(0x80000000)
	MEMORY(0x80000000)
	.zero (512 - 260) * 8
