/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x86-64: from QEMU's PVH loader, in 32-bit protected mode, to the kernel half of the address space.
 *
 *	0			the program, 8 MiB		user
 *	0x800000		where this file runs, 2 MiB	supervisor
 *	0xffff800000000000	memory, 4 GiB			supervisor
 *	0xffffffff80000000	the first gigabyte		supervisor
 */
#include "layout.h"

#define HIGH 0xffffffff80000000
#define PHYSICAL_OF(symbol) (symbol - HIGH)
#define MEMORY 0x800000
#define PHYS32_ENTRY 18 /* XEN_ELFNOTE_PHYS32_ENTRY */
#define CR4_PAE (1 << 5)
#define CR0_PG_WP_PE (1 << 31 | 1 << 16 | 1)
#define EFER 0xc0000080
#define EFER_SCE_LME (1 << 8 | 1)
#define STAR 0xc0000081
#define LSTAR 0xc0000082
#define FMASK 0xc0000084
#define KERNEL_GS_BASE 0xc0000102
/* As Linux has them (arch/x86/include/asm/segment.h): sysret adds 16 and 8 to USER32_CS. */
#define KERNEL_CS 0x10
#define USER32_CS 0x23
#define FLAGS_TF_IF_DF_AC (1 << 8 | 1 << 9 | 1 << 10 | 1 << 18)
#define FLAGS_IF 0x202

	.section .note.Xen, "a", @note
	.balign 4
	.long 4, 8, PHYS32_ENTRY
	.asciz "Xen"
	.quad PHYSICAL_OF(floor_start)

	.section .boot, "ax"
	.code32
	.globl floor_start
floor_start:
	mov %ebx, %esi			/* start_info */
	mov $CR4_PAE, %eax
	mov %eax, %cr4
	mov $PHYSICAL_OF(top_table), %eax
	mov %eax, %cr3
	mov $EFER, %ecx
	mov $EFER_SCE_LME, %eax
	xor %edx, %edx
	wrmsr
	mov $CR0_PG_WP_PE, %eax
	mov %eax, %cr0
	lgdt PHYSICAL_OF(segments_pointer)
	ljmp $KERNEL_CS, $PHYSICAL_OF(1f)
	.code64
1:	movabs $in_kernel_half, %rax
	jmp *%rax

	.text
in_kernel_half:
	xor %eax, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov %eax, %fs
	mov %eax, %gs
	/* No interrupt of the old controllers. */
	mov $0xff, %al
	out %al, $0x21
	out %al, $0xa1
	mov $STAR, %ecx
	xor %eax, %eax
	mov $(USER32_CS << 16 | KERNEL_CS), %edx
	wrmsr
	mov $LSTAR, %ecx
	mov $floor_entry, %rax
	mov %rax, %rdx
	shr $32, %rdx
	wrmsr
	mov $FMASK, %ecx
	mov $FLAGS_TF_IF_DF_AC, %eax
	xor %edx, %edx
	wrmsr
	mov $KERNEL_GS_BASE, %ecx
	mov $floor_cpu, %rax
	mov %rax, %rdx
	shr $32, %rdx
	wrmsr
	mov $floor_stack_top, %rsp
	mov %esi, %edi
	call floor_main

	.globl floor_enter_user
floor_enter_user:
	mov %rdi, %rcx
	mov %rsi, %rsp
	mov $FLAGS_IF, %r11d
	sysretq

	.data
	.balign 8
segments:
	.quad 0, 0
	.quad 0x00af9b000000ffff	/* KERNEL_CS */
	.quad 0x00cf93000000ffff
	.quad 0
	.quad 0x00cff3000000ffff	/* user data */
	.quad 0x00affb000000ffff	/* user code */
segments_pointer:
	.word segments_pointer - segments - 1
	.long PHYSICAL_OF(segments)

/* Present, writable, accessed, dirty; a table for user pages has U too. */
#define TABLE(symbol) .quad PHYSICAL_OF(symbol) + 0x67
#define KERNEL(address) .quad (address) | 0xe3
#define USER(address) .quad (address) | 0xe7
	.balign 4096
top_table:
	TABLE(low_table)
	.zero (256 - 1) * 8
	TABLE(linear_table)
	.zero (512 - 258) * 8
	TABLE(high_table)
low_table:
	TABLE(user_table)
	.zero (512 - 1) * 8
linear_table:
	KERNEL(0)
	KERNEL(0x40000000)
	KERNEL(0x80000000)
	KERNEL(0xc0000000)
	.zero (512 - 4) * 8
high_table:
	.zero (512 - 2) * 8
	KERNEL(0)
	.quad 0
user_table:
	USER(USER_OFFSET)
	USER(USER_OFFSET + 0x200000)
	USER(USER_OFFSET + 0x400000)
	USER(USER_OFFSET + 0x600000)
	KERNEL(MEMORY)
	.zero (512 - 5) * 8
	.zero STACK_BYTES
	.globl floor_stack_top, floor_task, floor_cpu, floor_user_stack
floor_stack_top:
/* floor:linux: its task; the parent is the task behind it. */
floor_task:
	.quad 0, 0, floor_task + TASK_BYTES, THE_PID
	.quad 0, 0, 0, THE_PPID
/* floor:linux: the cpu's own data, which swapgs finds: CPU_STACK_TOP, CPU_USER_STACK. */
floor_cpu:
	.quad floor_stack_top, 0
/* floor: where a call that is not measured keeps the program's stack. */
floor_user_stack:
	.quad 0
