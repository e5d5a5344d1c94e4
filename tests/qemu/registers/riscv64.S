/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Says whether a system call kept every register that the ABI says it keeps. */
#define NR_WRITE 64
#define NR_EXIT 93
#define NR_GETPPID 173
#define VALUE(n) (0x1000 + (n))

	.option norelax
	.globl _start
_start:
	li a7, NR_GETPPID
	.irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	li x\n, VALUE(\n)
	.endr
	ecall
	addi a0, a0, -1
	bnez a0, 1f
	li a0, NR_GETPPID
	bne a7, a0, 1f
	.irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	li a0, VALUE(\n)
	bne x\n, a0, 1f
	.endr
	la a1, kept
	j 2f
1:	la a1, lost
2:	li a0, 1
	li a2, 5
	li a7, NR_WRITE
	ecall
	li a7, NR_EXIT
	ecall

kept:	.ascii "kept\n"
lost:	.ascii "lost\n"
