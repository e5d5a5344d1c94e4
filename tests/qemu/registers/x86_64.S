/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Says whether a system call kept every register that the ABI says it keeps. */
#define NR_WRITE 1
#define NR_EXIT 60
#define NR_GETPPID 110

	.globl _start
_start:
	.irp reg, rbx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r12, r13, r14, r15
	mov $(\reg\()_value), %\reg
	.endr
	mov $NR_GETPPID, %eax
	stc				/* the flags are kept, too */
	syscall
	jnc 1f
	cmp $1, %rax
	jne 1f
	.irp reg, rbx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r12, r13, r14, r15
	cmp $(\reg\()_value), %\reg
	jne 1f
	.endr
	lea kept(%rip), %rsi
	jmp 2f
1:	lea lost(%rip), %rsi
2:	mov $1, %edi
	mov $5, %edx
	mov $NR_WRITE, %eax
	syscall
	mov $NR_EXIT, %eax
	syscall

	.set rbx_value, 0x1001
	.set rdx_value, 0x1002
	.set rsi_value, 0x1003
	.set rdi_value, 0x1004
	.set rbp_value, 0x1005
	.set rsp_value, 0x1006
	.set r8_value, 0x1007
	.set r9_value, 0x1008
	.set r10_value, 0x1009
	.set r12_value, 0x100a
	.set r13_value, 0x100b
	.set r14_value, 0x100c
	.set r15_value, 0x100d
kept:	.ascii "kept\n"
lost:	.ascii "lost\n"
