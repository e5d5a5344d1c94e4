/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x86_64: the windows, one set for each entry instruction, and where the program starts.
 * What stands between the two marks is spelled out, so its length is known.
 */
#ifndef KENTRY_WINDOWS_H
#define KENTRY_WINDOWS_H

#include "arch.h"
#include "window.h"

/* Every window is there marked, bare and skipped, as on arm64; by int80 not bare. */
#define SKIP_BEGIN "jmp 1f\n\t"
#define SKIP_END "1:\n\t" MARK_ASM(MARK_END)

/* One window of one call: user side 1 instruction, the syscall. */
/* clang-format off */
#define WINDOW_ONE(name, begin, end)								\
	static void name(struct work *w)							\
	{											\
		register long r10 __asm__("r10") = w->first.args[3];				\
		long rax = w->first.nr;								\
												\
		__asm__ volatile(begin "syscall\n\t" end					\
			: "+a"(rax)								\
			: "D"(w->first.args[0]), "S"(w->first.args[1]),				\
			  "d"(w->first.args[2]), "r"(r10)					\
			: "rcx", "r11", "memory", "cc");					\
		w->first.ret = rax;								\
	}
/* clang-format on */
WINDOW_ONE(window_one, MARK_ASM(MARK_BEGIN), MARK_ASM(MARK_END))
WINDOW_ONE(bare_one, "", "")
WINDOW_ONE(skipped_one, SKIP_BEGIN, SKIP_END)

/* Two calls, as on arm64: syscall, keep the result, the moves, syscall. */
/* clang-format off */
#define WINDOW_TWO(name, begin, move_first, end)						\
	static void name(struct work *w)							\
	{											\
		register long r10 __asm__("r10") = w->first.args[3];				\
		register long r12 __asm__("r12") = w->second.args[0];				\
		register long r13 __asm__("r13") = w->second.args[1];				\
		register long r14 __asm__("r14") = w->second.args[2];				\
		register long r15 __asm__("r15") = w->second.nr;				\
		long rax = w->first.nr, rdi = w->first.args[0];					\
		long rsi = w->first.args[1], rdx = w->first.args[2], first;			\
												\
		__asm__ volatile(								\
			begin									\
			"syscall\n\t"								\
			"mov %%rax, %[first]\n\t"						\
			move_first								\
			"mov %%r13, %%rsi\n\t"							\
			"mov %%r14, %%rdx\n\t"							\
			"mov %%r15, %%rax\n\t"							\
			"syscall\n\t"								\
			end									\
			: "+a"(rax), "+D"(rdi), "+S"(rsi), "+d"(rdx), [first] "=&r"(first)	\
			: "r"(r10), "r"(r12), "r"(r13), "r"(r14), "r"(r15)			\
			: "rcx", "r11", "memory", "cc");					\
		w->first.ret = first;								\
		w->second.ret = rax;								\
	}
/* clang-format on */
WINDOW_TWO(window_two, MARK_ASM(MARK_BEGIN), "mov %%r12, %%rdi\n\t", MARK_ASM(MARK_END))
WINDOW_TWO(window_chain, MARK_ASM(MARK_BEGIN), "mov %%rax, %%rdi\n\t", MARK_ASM(MARK_END))
WINDOW_TWO(bare_two, "", "mov %%r12, %%rdi\n\t", "")
WINDOW_TWO(bare_chain, "", "mov %%rax, %%rdi\n\t", "")
WINDOW_TWO(skipped_two, SKIP_BEGIN, "", SKIP_END)

/* Kernels before 6.7 clear r8-r11 on int $0x80, so nothing is kept there. */
/* clang-format off */
#define WINDOW_ONE_INT80(name, begin, end)							\
	static void name(struct work *w)							\
	{											\
		long rax = w->first.nr;								\
												\
		__asm__ volatile(begin "int $0x80\n\t" end					\
			: "+a"(rax)								\
			: "b"(w->first.args[0]), "c"(w->first.args[1]),				\
			  "d"(w->first.args[2]), "S"(w->first.args[3])				\
			: "r8", "r9", "r10", "r11", "memory", "cc");				\
		w->first.ret = (int)rax;							\
	}
/* clang-format on */
WINDOW_ONE_INT80(window_one_int80, MARK_ASM(MARK_BEGIN), MARK_ASM(MARK_END))
WINDOW_ONE_INT80(skipped_one_int80, SKIP_BEGIN, SKIP_END)

/* clang-format off */
#define WINDOW_TWO_INT80(name, begin, move_first, end)						\
	static void name(struct work *w)							\
	{											\
		register long r12 __asm__("r12") = w->second.args[0];				\
		register long r13 __asm__("r13") = w->second.args[1];				\
		register long r14 __asm__("r14") = w->second.args[2];				\
		register long r15 __asm__("r15") = w->second.nr;				\
		long rax = w->first.nr, rbx = w->first.args[0];					\
		long rcx = w->first.args[1], rdx = w->first.args[2];				\
		register long first __asm__("rdi");						\
												\
		__asm__ volatile(								\
			begin									\
			"int $0x80\n\t"								\
			"mov %%rax, %%rdi\n\t"							\
			move_first								\
			"mov %%r13, %%rcx\n\t"							\
			"mov %%r14, %%rdx\n\t"							\
			"mov %%r15, %%rax\n\t"							\
			"int $0x80\n\t"								\
			end									\
			: "+a"(rax), "+b"(rbx), "+c"(rcx), "+d"(rdx), "=&r"(first)		\
			: "S"(w->first.args[3]), "r"(r12), "r"(r13), "r"(r14), "r"(r15)		\
			: "r8", "r9", "r10", "r11", "memory", "cc");				\
		w->first.ret = (int)first;							\
		w->second.ret = (int)rax;							\
	}
/* clang-format on */
WINDOW_TWO_INT80(window_two_int80, MARK_ASM(MARK_BEGIN), "mov %%r12, %%rbx\n\t", MARK_ASM(MARK_END))
WINDOW_TWO_INT80(window_chain_int80, MARK_ASM(MARK_BEGIN), "mov %%rax, %%rbx\n\t",
		 MARK_ASM(MARK_END))
WINDOW_TWO_INT80(skipped_two_int80, SKIP_BEGIN, "", SKIP_END)

static const struct entry entries[] = {
	/* rax is not the first argument's register here, so a chain needs its move too. */
	{ .name = "syscall",
	  .bodies = { [SHAPE_ONE] = { window_one, bare_one, skipped_one, 1 },
		      [SHAPE_TWO] = { window_two, bare_two, skipped_two, 7 },
		      [SHAPE_CHAIN] = { window_chain, bare_chain, skipped_two, 7 } } },
	{ .name = "int80",
	  .compat = 1,
	  .bodies = { [SHAPE_ONE] = { window_one_int80, 0, skipped_one_int80, 1 },
		      [SHAPE_TWO] = { window_two_int80, 0, skipped_two_int80, 7 },
		      [SHAPE_CHAIN] = { window_chain_int80, 0, skipped_two_int80, 7 } } },
};

/* The kernel hands over a stack with argc at the top; the probe goes on with its own. */
__asm__(".globl _start\n"
	"_start:\n\t"
	"xor %ebp, %ebp\n\t"
	"mov %rsp, %rdi\n\t"
	"mov $probe_stack + " STR(PROBE_STACK) ", %esp\n\t"
					       "call probe_start\n\t"
					       "ud2\n");

#endif
