/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The plugin's self-test for arm64: windows whose instructions are counted by hand.
 *
 * Everything runs at EL1 in 1 GiB blocks.  Physical 0x40000000 is mapped five times:
 *
 *	0x40000000		the program: marks and messages		counted as user
 *	0x80000000, 0xc0000000	the page .aliased: marks		counted as user
 *	0xffffff8040000000	the page .counted			counted as kernel
 *	0xffffff8080000000	.counted once more			counted as kernel
 *
 * A page runs in one half of the address space only: QEMU 10 and later translate a
 * physical page once for all its mappings.
 *
 * The guest's own count is the PMU's INST_RETIRED: one less for each fault.
 */
#include "marks.h"

#define MARK_BASE 0xAB00
#define HIGH 0xffffff8000000000
#define GIGABYTE 0x40000000
#define LOOPS 1000
#define UNMAPPED 0x100000000
#define UART 0x09000000
#define UART_FLAGS 0x18
#define INST_RETIRED 0x08
#define PSCI_SYSTEM_OFF 0x84000008

.macro MARK number
	movz xzr, #(MARK_BASE + \number)
.endm

/* Sends a line to the plugin. */
.macro SAY text
	.pushsection .data
9:	.asciz "\text"
	.popsection
	ldr x0, =9b
	bl send
.endm

/* Sends "clock NAME HEX", HEX from x22 - x21: what the guest itself counted. */
.macro SAY_CLOCK name
	SAY "clock \name "
	sub x0, x22, x21
	bl send_hex
.endm

/* One window, user side 1: calls `function` in .counted, at the high address. */
.macro WINDOW function
	ldr x19, =\function + HIGH
	MARK MARK_BEGIN
	blr x19
	MARK MARK_END
.endm

	.text
	.globl _start
_start:
	ldr x0, =0xff00			/* 0: device; 1: memory, write-back */
	msr mair_el1, x0
	/* 39 bits each half, 4 KiB granules, 40 bits physical. */
	ldr x0, =25 | 25 << 16 | 2 << 30 | 2 << 32
	msr tcr_el1, x0
	ldr x0, =low_table
	msr ttbr0_el1, x0
	ldr x0, =high_table
	msr ttbr1_el1, x0
	ldr x0, =vectors + HIGH
	msr vbar_el1, x0
	isb
	mrs x0, sctlr_el1
	ldr x1, =0x1005			/* MMU and caches on */
	orr x0, x0, x1
	msr sctlr_el1, x0
	isb
	mov x0, #INST_RETIRED
	msr pmevtyper0_el0, x0
	mov x0, #1
	msr pmcntenset_el0, x0
	msr pmcr_el0, x0
	isb

	/* Windows begun before the instrumentation is there are spoilt, not counted wrongly. */
	SAY "case reset count 1\n"
	mov x25, #50
	MARK MARK_COUNT
1:	WINDOW counted_short
	subs x25, x25, #1
	b.ne 1b

	SAY "case fault count 1\n"
	ldr x20, =UNMAPPED
	WINDOW counted_fault
	SAY_CLOCK fault

	SAY "case mmio count 1\n"
	ldr x20, =HIGH + UART
	WINDOW counted_mmio
	SAY_CLOCK mmio

	/* 100 windows whose marks and counted code run at one address, and at another. */
	SAY "case alias count 1\n"
	mov x25, #100
1:	ldr x19, =counted_short + HIGH
	ldr x0, =aliased + GIGABYTE
	blr x0
	ldr x19, =counted_short + HIGH + GIGABYTE
	ldr x0, =aliased + 2 * GIGABYTE
	blr x0
	subs x25, x25, #1
	b.ne 1b

	MARK MARK_PATH
	SAY "case mmio path 1\n"
	ldr x20, =HIGH + UART
	WINDOW counted_mmio
	SAY "case metrics path 1\n"
	ldr x20, =buffer
	WINDOW counted_metrics
	WINDOW counted_metrics

	MARK MARK_IDLE
	SAY "case idle count 1\n"
	WINDOW counted_mmio
	SAY "end 6\n"

	ldr x0, =PSCI_SYSTEM_OFF
	hvc #0
1:	b 1b

/* Sends the string at x0, bit by bit. */
send:
	ldrb w1, [x0], #1
	cbz w1, 4f
	mov w2, #8
1:	tbz w1, #7, 2f
	MARK MARK_BIT1
	b 3f
2:	MARK MARK_BIT0
3:	lsl w1, w1, #1
	subs w2, w2, #1
	b.ne 1b
	b send
4:	ret

/* Sends x0 as 16 hexadecimal digits and a newline. */
send_hex:
	ldr x1, =number
	ldr x3, =digits
	mov x2, #16
1:	lsr x4, x0, #60
	lsl x0, x0, #4
	ldrb w4, [x3, x4]
	strb w4, [x1], #1
	subs x2, x2, #1
	b.ne 1b
	ldr x0, =number
	b send
	.ltorg

/* Runs at 0x80... and at 0xc0...; user side 1, kernel side counted_short's. */
	.section .aliased, "ax"
aliased:
	mov x24, x30
	MARK MARK_BEGIN
	blr x19
	MARK MARK_END
	ret x24

/* --- counted as kernel --------------------------------------------------- */

	.section .counted, "ax"
	.balign 2048
vectors:
	.skip 0x200
/* Synchronous, from EL1 with SP_EL1; a data abort: 4 instructions. */
	mrs x9, elr_el1
	add x9, x9, #4
	msr elr_el1, x9
	eret
	.skip 0x800 - 0x210

/* 3 */
counted_short:
	add x26, x26, #1
	add x26, x26, #1
	ret

/* 4 + 1000 * (10, one of them faulting, + 4 in the vector) = 14004; faults: 1000 */
counted_fault:
	mrs x21, pmevcntr0_el0
	mov x23, #LOOPS
1:	add x26, x26, #1
	add x26, x26, #1
	add x26, x26, #1
	add x26, x26, #1
	ldr x1, [x20]
	add x26, x26, #1
	add x26, x26, #1
	add x26, x26, #1
	subs x23, x23, #1
	b.ne 1b
	mrs x22, pmevcntr0_el0
	ret

/* 4 + 1000 * 8 = 8004: a device is read in mid-block */
counted_mmio:
	mrs x21, pmevcntr0_el0
	mov x23, #LOOPS
1:	add x26, x26, #1
	add x26, x26, #1
	add x26, x26, #1
	ldr w1, [x20, #UART_FLAGS]
	add x26, x26, #1
	add x26, x26, #1
	subs x23, x23, #1
	b.ne 1b
	mrs x22, pmevcntr0_el0
	ret

/*
 * 22 instructions:
 *	loads: ldr, ldr, ldp, ldadd, ldxr: 5, of 8 + 8 + 16 + 8 + 8 = 48 bytes
 *	stores: stp, str, stp, ldadd, stxr: 5, of 16 + 4 + 16 + 8 + 8 = 52 bytes
 *	atomics: ldadd, ldxr, stxr; the stack: bytes 2016 to 2047 of the buffer
 *	branches: cbnz, cbz, bl, ret, b, br, ret: all but cbnz are taken
 *	lines of 64 bytes: of data 0, 1, 2, 31, 63, 64, of code 2
 */
	.balign 128
counted_metrics:
	mov x24, x30
	add sp, x20, #2048
	stp x0, x1, [sp, #-32]!
	ldr x0, [sp, #24]
	ldr x0, [x20]
	ldp x1, x2, [x20, #56]
	str w1, [x20, #128]
	add x5, x20, #4088
	stp x1, x2, [x5]
	ldadd x1, x2, [x20]
1:	ldxr x3, [x20]
	stxr w4, x3, [x20]
	cbnz w4, 1b
	cbz w4, 2f
	nop
2:	bl 3f
	b 4f
3:	ret
4:	adr x5, 5f
	br x5
	nop
5:	isb
	dsb sy
	ret x24

/* --- data ------------------------------------------------------------------ */

	.data
digits:	.ascii "0123456789abcdef"
number:	.ascii "0123456789abcdef\n\0"
	.balign 4096
buffer:	.zero 8192

/* A block of 1 GiB, accessed: a device (never executed), or inner-shareable memory. */
#define DEVICE(address) .quad (address) | 3 << 53 | 0x401
#define MEMORY(address) .quad (address) | 0x705
	.balign 4096
low_table:
	DEVICE(0)
	MEMORY(GIGABYTE)
	MEMORY(GIGABYTE)
	MEMORY(GIGABYTE)
	.zero (512 - 4) * 8
high_table:
	DEVICE(0)
	MEMORY(GIGABYTE)
	MEMORY(GIGABYTE)
	.zero (512 - 3) * 8
