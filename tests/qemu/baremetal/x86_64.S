/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The plugin's self-test for x86-64: windows whose instructions are counted by hand.
 *
 * Everything runs in ring 0, in 1 GiB pages.  The first gigabyte is mapped five times:
 *
 *	0			the program: marks and messages		counted as user
 *	ALIAS1, ALIAS2		the page .aliased: marks		counted as user
 *	HIGH			the page .counted			counted as kernel
 *	HIGH2			.counted once more			counted as kernel
 *
 * A page runs in one half of the address space only: QEMU 10 and later translate a
 * physical page once for all its mappings.
 *
 * The guest's own count is the time stamp counter, which under -icount counts
 * instructions executed: one less for each fault, and a REP once an iteration.
 */
#include "marks.h"

#define MARK_BASE 0x5AABBC00
#define ALIAS1 0x8000000000
#define ALIAS2 0x8040000000
#define HIGH 0xffffffff80000000
#define HIGH2 0xffffff7f80000000
#define LOOPS 1000
#define UNMAPPED 0x10000000000
#define APIC_VERSION 0xfffffffffee00030

#define MULTIBOOT_MAGIC 0x1badb002

.macro MARK number
	.byte 0x0f, 0x1f, 0x84, 0x00
	.long MARK_BASE + \number
.endm

/* Sends a line to the plugin. */
.macro SAY text
	.pushsection .data
9:	.asciz "\text"
	.popsection
	mov $9b, %esi
	call send
.endm

/* Sends "clock NAME HEX", HEX from r12: what the guest itself counted. */
.macro SAY_CLOCK name
	SAY "clock \name "
	mov %r12, %rax
	call send_hex
.endm

/* One window, user side 1: calls `function` in .counted, at the high address. */
.macro WINDOW function
	mov $\function, %ebx
	mov $HIGH, %rax
	add %rax, %rbx
	MARK MARK_BEGIN
	call *%rbx
	MARK MARK_END
.endm

/* r12: the counter, then how far it came. */
.macro CLOCK_BEGIN		/* 2 */
	rdtsc
	mov %eax, %r12d
.endm

.macro CLOCK_END		/* 3 */
	rdtsc
	sub %r12d, %eax
	mov %eax, %r12d
.endm

	.section .multiboot, "a"
	.balign 4
	.long MULTIBOOT_MAGIC, 0, -MULTIBOOT_MAGIC

	.text
	.code32
	.globl _start
_start:
	cli
	mov $top_table, %eax
	mov %eax, %cr3
	mov $0x20, %eax			/* PAE */
	mov %eax, %cr4
	mov $0xc0000080, %ecx		/* EFER: long mode */
	rdmsr
	or $0x100, %eax
	wrmsr
	mov $0x80000001, %eax		/* paging, protection */
	mov %eax, %cr0
	lgdt gdt_pointer
	ljmp $8, $main

	.code64
main:
	mov $16, %eax
	mov %eax, %ss
	mov %eax, %ds
	mov %eax, %es
	mov $stack_end, %esp
	mov $page_fault, %eax		/* a gate: low 16, selector and type, high 16, high 32 */
	mov %ax, idt_page_fault
	movl $0x8e000008, idt_page_fault + 2
	mov $HIGH, %rbx
	add %rbx, %rax
	shr $16, %rax
	mov %ax, idt_page_fault + 6
	shr $16, %rax
	mov %eax, idt_page_fault + 8
	lidt idt_pointer

	/* Windows begun before the instrumentation is there are spoilt, not counted wrongly. */
	SAY "case reset count 1\n"
	mov $50, %ebp
	MARK MARK_COUNT
1:	WINDOW counted_short
	dec %ebp
	jnz 1b

	SAY "case fault count 1\n"
	mov $UNMAPPED, %rdi
	WINDOW counted_fault
	SAY_CLOCK fault

	SAY "case mmio count 1\n"
	mov $APIC_VERSION, %rdi
	WINDOW counted_mmio
	SAY_CLOCK mmio

	SAY "case rep count 1\n"
	WINDOW counted_rep
	SAY "case repeated-rep count 1\n"
	WINDOW counted_repeated_rep
	SAY "case faulting-rep count 1\n"
	mov $UNMAPPED, %rdi
	WINDOW counted_faulting_rep

	/* 100 windows whose marks and counted code run at one address, and at another. */
	SAY "case alias count 1\n"
	mov $100, %ebp
1:	mov $HIGH, %rbx
	add $counted_short, %rbx
	mov $ALIAS1, %rax
	add $aliased, %rax
	call *%rax
	mov $HIGH2, %rbx
	add $counted_short, %rbx
	mov $ALIAS2, %rax
	add $aliased, %rax
	call *%rax
	dec %ebp
	jnz 1b

	MARK MARK_PATH
	SAY "case mmio path 1\n"
	mov $APIC_VERSION, %rdi
	WINDOW counted_mmio
	SAY "case rep path 1\n"
	WINDOW counted_rep
	SAY "case metrics path 1\n"
	mov $buffer, %edi
	WINDOW counted_metrics
	WINDOW counted_metrics

	MARK MARK_IDLE
	SAY "case idle count 1\n"
	WINDOW counted_mmio
	SAY "end 9\n"

	lidt no_idt			/* a triple fault: reset, which -no-reboot makes the end */
	int3

/* Sends the string at rsi, bit by bit. */
send:
	mov (%rsi), %al
	inc %rsi
	test %al, %al
	jz 4f
	mov $8, %ecx
1:	add %al, %al
	jc 2f
	MARK MARK_BIT0
	jmp 3f
2:	MARK MARK_BIT1
3:	dec %ecx
	jnz 1b
	jmp send
4:	ret

/* Sends rax as 16 hexadecimal digits and a newline. */
send_hex:
	mov $number, %edi
	mov $16, %ecx
1:	rol $4, %rax
	mov %eax, %edx
	and $15, %edx
	mov digits(%rdx), %dl
	mov %dl, (%rdi)
	inc %rdi
	dec %ecx
	jnz 1b
	mov $number, %esi
	jmp send

/* Runs at ALIAS1 and at ALIAS2; user side 1, kernel side counted_short's. */
	.section .aliased, "ax"
aliased:
	MARK MARK_BEGIN
	call *%rbx
	MARK MARK_END
	ret

/* --- counted as kernel --------------------------------------------------- */

	.section .counted, "ax"

/* A page fault, of an instruction 3 bytes long: 3 instructions. */
page_fault:
	add $8, %rsp
	addq $3, (%rsp)
	iretq

/* 3 */
counted_short:
	inc %r13
	inc %r13
	ret

/* 7 + 1000 * (10, one of them faulting, + 3 in page_fault) = 13007; faults: 1000 */
counted_fault:
	CLOCK_BEGIN
	mov $LOOPS, %ecx
1:	inc %r13
	inc %r13
	inc %r13
	inc %r13
	mov (%rdi), %rax
	inc %r13
	inc %r13
	inc %r13
	dec %ecx
	jnz 1b
	CLOCK_END
	ret

/* 7 + 1000 * 8 = 8007: a device is read in mid-block */
counted_mmio:
	CLOCK_BEGIN
	mov $LOOPS, %ecx
1:	inc %r13
	inc %r13
	inc %r13
	mov (%rdi), %eax
	inc %r13
	inc %r13
	dec %ecx
	jnz 1b
	CLOCK_END
	ret

.macro STOSB size		/* 3 */
	mov $\size, %ecx
	mov $buffer, %edi
	rep stosb
.endm

.macro MOVSB size		/* 4 */
	mov $\size, %ecx
	mov $buffer, %edi
	mov $buffer + 4096, %esi
	rep movsb
.endm

/* 6 * 3 + 6 * 4 + 1 + 4 (a REP with two more prefixes) + 5 (REPNE) + 1 = 53 */
counted_rep:
	STOSB 0
	STOSB 1
	STOSB 2
	STOSB 7
	STOSB 64
	STOSB 4096
	MOVSB 0
	MOVSB 1
	MOVSB 2
	MOVSB 7
	MOVSB 64
	MOVSB 4096
	rep stosb			/* again, with nothing left to do */
	mov $9, %ecx
	mov $buffer, %edi
	mov $buffer + 4096, %esi
	.byte 0x67, 0xf3, 0x48, 0xa5	/* addr32 rep movsq */
	mov $100, %ecx
	mov $buffer, %edi
	xor %eax, %eax
	inc %eax
	repne scasb			/* ends at the count: the buffer has no 1 */
	ret

/* 2 + 100 * 6 = 602: the same REP again and again, and one that follows another */
counted_repeated_rep:
	mov $100, %edx
1:	mov $16, %ecx
	mov $buffer, %edi
	rep stosb
	rep stosb
	dec %edx
	jnz 1b
	ret

/* 5, one of them a REP that does nothing but fault, + 3 in page_fault = 8 */
counted_faulting_rep:
	mov $64, %ecx
	inc %r13
	rep stosq			/* 3 bytes */
	inc %r13
	ret

/*
 * 20 instructions:
 *	loads: mov, mov, xadd, xchg, add, ret, pop, ret: 8, of 7 * 8 + 4 = 60 bytes
 *	stores: push, mov, xadd, xchg, add, call: 6, of 5 * 8 + 1 = 41 bytes
 *	atomics: xadd, xchg; the stack: 24 bytes
 *	branches: jnz, jz, call, ret, jmp, jmp, ret: all but jnz are taken
 *	lines of 64 bytes: of data 0, 1, 2, 63, 64 and one of the stack, of code 2
 */
	.balign 128
counted_metrics:
	push %rax
	mov (%rdi), %rax
	mov 60(%rdi), %eax
	mov %al, 64(%rdi)
	lock xadd %rax, (%rdi)
	xchg %rax, 128(%rdi)
	addq $1, 4092(%rdi)
	xor %ecx, %ecx
	jnz 1f
	jz 1f
	nop
1:	call 2f
	jmp 3f
2:	ret
3:	lea 4f(%rip), %rdx
	jmp *%rdx
	nop
4:	lfence
	mov %cr3, %rdx
	mov %rdx, %cr3
	pop %rax
	ret

/* --- data ------------------------------------------------------------------ */

	.data
digits:	.ascii "0123456789abcdef"
number:	.ascii "0123456789abcdef\n\0"

	.balign 16
gdt:	.quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
gdt_pointer:
	.word 23
	.long gdt, 0

/* Interrupt gates; main makes the only one, the page fault's. */
	.balign 16
idt:	.zero 14 * 16
idt_page_fault:
	.quad 0, 0
idt_pointer:
	.word 15 * 16 - 1
	.quad idt
no_idt:
	.word 0
	.quad 0

/* Present, writable; PAGE: a gigabyte, accessed, dirty. */
#define TABLE(address) .quad (address) + 3
#define PAGE(address) .quad (address) + 0xe3
	.balign 4096
top_table:
	TABLE(low_table)
	TABLE(alias_table)
	.zero (510 - 2) * 8
	TABLE(high_table)
	TABLE(high_table)
low_table:
	PAGE(0)
	PAGE(0x40000000)
	PAGE(0x80000000)
	PAGE(0xc0000000)
	.zero (512 - 4) * 8
alias_table:
	PAGE(0)
	PAGE(0)
	.zero (512 - 2) * 8
high_table:
	.zero 510 * 8
	PAGE(0)
	PAGE(0xc0000000)
buffer:	.zero 8192
stack:	.zero 4096
stack_end:
