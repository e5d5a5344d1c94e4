/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Says whether a system call kept every register that the ABI says it keeps. */
#define NR_WRITE 64
#define NR_EXIT 93
#define NR_GETPPID 173
#define VALUE(n) (0x1000 + (n))

	.globl _start
_start:
	mov x8, #NR_GETPPID
	.irp n, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
	mov x\n, #VALUE(\n)
	.endr
	mov x0, sp
	mov sp, x0
	cmp x0, x0			/* Z: the flags are kept, too */
	svc #0
	b.ne 1f
	cmp x8, #NR_GETPPID
	b.ne 1f
	cmp x0, #1
	b.ne 1f
	.irp n, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
	mov x0, #VALUE(\n)
	cmp x\n, x0
	b.ne 1f
	.endr
	ldr x1, =kept
	b 2f
1:	ldr x1, =lost
2:	mov x0, #1
	mov x2, #5
	mov x8, #NR_WRITE
	svc #0
	mov x8, #NR_EXIT
	svc #0

kept:	.ascii "kept\n"
lost:	.ascii "lost\n"
