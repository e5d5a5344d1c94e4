/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks: the no-op instructions by which the probe speaks to the plugin.
 *
 * A mark is a no-op of its architecture with a magic operand; its low byte is
 * one of the numbers below.  The plugin knows a mark by its encoding when QEMU
 * translates it, so neither side ever needs an address of the other.
 *
 *	arm64	movz xzr, #0xABnn
 *	riscv64	lui x0, 0xABCnn				(a HINT)
 *	x86_64	nopl 0x5AABBCnn(%rax,%rax)		(8 bytes)
 *
 * Before a mark that changes what is instrumented stands a SETTLE instruction, one that QEMU
 * emulates by a call of its own.  QEMU before 8.0 keeps a pointer to the plugin's list of an
 * instruction that ends a block, such as a return, and frees the list when it translates anew;
 * a later access of a helper then follows the pointer.  It forgets the pointer behind an
 * instruction that makes a call and does not end a block ("plugin: fix clearing of plugin_mem_cbs
 * on TB exit" mends it).
 *
 *	arm64	udiv x9, x9, x9
 *	riscv64	fclass.d t0, ft0
 *	x86_64	div %ecx
 *
 * Shared by guest/ and plugin/, so the two cannot disagree.
 */
#ifndef KENTRY_MARKS_H
#define KENTRY_MARKS_H

#define MARK_BEGIN 0x01 /* a window opens after this instruction */
#define MARK_END 0x02	/* and closes before this one */
#define MARK_BIT0 0x10	/* one bit of a message, most significant first; */
#define MARK_BIT1 0x11	/* a newline byte ends the message */
#define MARK_IDLE 0x20	/* instrument nothing but marks */
#define MARK_COUNT 0x21 /* count every instruction */
#define MARK_PATH 0x22	/* count, and record every kernel instruction */

#define MARK_TRACE_BEGIN 0x30 /* a workload begins after this instruction */
#define MARK_TRACE_END 0x31   /* and has ended before this one */

#define MARK_RISCV64_BASE 0xABC00u
#define MARK_ARM64_BASE 0xAB00u
#define MARK_X86_64_BASE 0x5AABBC00u

#define SETTLE_RISCV64 0xe20012d3u
#define SETTLE_ARM64 0x9ac90929u
#define SETTLE_X86_64 0xf1f7u /* two bytes */

#endif
