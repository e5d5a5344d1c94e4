/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kernels for QEMU's virt machine that are there to harm who boots them, each by another -D.  They
 * run at the addresses that they were loaded to, which are those of a program to the plugin, so
 * they can say to it all that a probe can.
 */
#include "../../../guest/marks.h"

#define UART 0x09000000
#define DEVICES 0x08000000 /* GIC, UART, RTC, fw_cfg, GPIO, virtio: 48 MiB */
#define PSCI_OFF 0x84000008
#define PSCI_RESET 0x84000009

	.macro mark number
	movz xzr, #(MARK_ARM64_BASE | \number)
	.endm

	/* Documentation/arch/arm64/booting.rst */
	.globl _start
_start:
	b begin
	.long 0
	.quad 0
	.quad end - _start
	.quad 0xa
	.quad 0, 0, 0
	.ascii "ARM\x64"
	.long 0
	.asciz BANNER
	.balign 8

	/* The next random number into x0; x28 has the state (xorshift64). */
random:
	eor x28, x28, x28, lsl #13
	eor x28, x28, x28, lsr #7
	eor x28, x28, x28, lsl #17
	mov x0, x28
	ret

	/* The string at x0 to the console. */
print:
	ldr x1, =UART
1:	ldrb w2, [x0], #1
	cbz w2, 2f
	str w2, [x1]
	b 1b
2:	ret

	/* The string at x0 to the plugin, bit by bit. */
send:
	ldrb w2, [x0], #1
	cbz w2, 4f
	mov w3, #8
1:	tbnz w2, #7, 2f
	mark MARK_BIT0
	b 3f
2:	mark MARK_BIT1
3:	lsl w2, w2, #1
	subs w3, w3, #1
	b.ne 1b
	b send
4:	ret

off:
	ldr x0, =PSCI_OFF
	hvc #0
	b .

	/* A window of some instructions. */
window:
	mark MARK_BEGIN
	nop
	mark MARK_END
	ret

begin:
	ldr x28, =0x9e3779b97f4a7c15
	adr x0, 1f
	mov sp, x0
#if defined(SILENT)
	b .
#elif defined(OFF)
	b off
#elif defined(RESET)
	ldr x0, =PSCI_RESET
	hvc #0
	b .
#elif defined(FLOOD)
	/* Without an end of a line, with what moves a cursor. */
2:	adr x0, flood
	bl print
	b 2b
#elif defined(STEADY)
	/* Lines of a kernel that boots and boots, so that there is always something new. */
2:	adr x0, steady
	bl print
	bl random
	mov x1, #20000
3:	subs x1, x1, #1
	b.ne 3b
	b 2b
#elif defined(MARKS)
	/* Any of 16 marks, for ever. */
2:	bl random
	and x0, x0, #15
	adr x1, table
	add x1, x1, x0, lsl #3
	br x1
table:
	.irp number, MARK_BEGIN, MARK_END, MARK_BIT0, MARK_BIT1, MARK_IDLE, MARK_COUNT, MARK_PATH, \
		MARK_TRACE_BEGIN, MARK_TRACE_END, 0, 3, 0x12, 0x23, 0x32, 0x7f, 0xff
	mark \number
	b 2b
	.endr
#elif defined(WINDOWS)
	/* Windows of a case, each another one, for ever. */
	adr x0, case
	bl send
	mark MARK_PATH
2:	bl random
	and x9, x0, #0xff
	mark MARK_BEGIN
3:	subs x9, x9, #1
	b.pl 3b
	mark MARK_END
	b 2b
#elif defined(DEVICES_WRITTEN)
	/* Anything to any register of any device. */
2:	bl random
	ldr x1, =0x2ffffff
	and x1, x1, x0, lsr #8
	ldr x2, =DEVICES
	add x1, x1, x2
	and x1, x1, #~3
	str w0, [x1]
	b 2b
#elif defined(LIES)
	/* All that a probe says, and nothing of it true. */
	adr x0, lies
	bl print
	adr x0, case
	bl send
	mark MARK_COUNT
	bl window
	bl window
	mark MARK_IDLE
	adr x0, nonsense
	bl send
	b off
#endif
	.ltorg
flood:
	.asciz "\033[2J\033]0;title\007AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
steady:
	.asciz "[    1.000000] still booting\n"
case:
	.asciz "case getppid count 1\n"
nonsense:
	.asciz "context 1 a=b\nend 99999999999999999999\n\n\ncase\ntext zz\n"
lies:
	.ascii "kentry-probe start x86_64\nkentry-probe release ../../../etc/passwd\n"
	.ascii "kentry-probe notes 00112233\nkentry-probe vector sve 99999999999\n"
	.ascii "kentry-probe block getppid 9 9 9\nkentry-probe register getppid z0 byte=1 is=2 filled=3 promised=4\n"
	.asciz "kentry-probe failed <script> phase=fork call=-1 result=-1\nkentry-probe end cases=12345678901234567890\n"
	.balign 16
	.space 4096
1:
	.space 64
end:
