// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An init that is not kentry's probe: it calls getppid many times and prints what its cpu's clock
 * says of the fastest round, in hexadecimal.  Under -icount the clock counts instructions.
 */

typedef unsigned long word;

#define CALLS 4000
#define ROUNDS 16

#if defined(__x86_64__)
enum { WRITE = 1, REBOOT = 169 };

static word now(void)
{
	word low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return high << 32 | low;
}

static void call(word number, word a, word b, word c)
{
	__asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
}

/* 4 instructions a call, and so on below: tests/qemu/test_processors.py takes them off. */
static void round(void)
{
	word left = CALLS;

	__asm__ volatile("1: movl $110, %%eax; syscall; decq %0; jnz 1b"
			 : "+b"(left)
			 :
			 : "rax", "rcx", "r11", "memory");
}

__asm__(".globl _start\n_start: andq $-16, %rsp\n call run\n");
#elif defined(__aarch64__)
enum { WRITE = 64, REBOOT = 142 };

static word now(void)
{
	word ticks;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}

static void call(word number, word a, word b, word c)
{
	register word x8 __asm__("x8") = number, x0 __asm__("x0") = a;
	register word x1 __asm__("x1") = b, x2 __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
}

static void round(void)
{
	register word x8 __asm__("x8") = 173, left __asm__("x19") = CALLS;

	__asm__ volatile("1: svc 0; subs %0, %0, 1; b.ne 1b"
			 : "+r"(left)
			 : "r"(x8)
			 : "x0", "cc", "memory");
}

__asm__(".globl _start\n_start: bl run\n");
#else
enum { WRITE = 64, REBOOT = 142 };

static word now(void)
{
	word ticks;

	__asm__ volatile("rdtime %0" : "=r"(ticks));
	return ticks;
}

static void call(word number, word a, word b, word c)
{
	register word a7 __asm__("a7") = number, a0 __asm__("a0") = a;
	register word a1 __asm__("a1") = b, a2 __asm__("a2") = c;

	__asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
}

static void round(void)
{
	register word a7 __asm__("a7") = 173, left __asm__("s1") = CALLS;

	__asm__ volatile("1: ecall; addi %0, %0, -1; bnez %0, 1b"
			 : "+r"(left)
			 : "r"(a7)
			 : "a0", "memory");
}

__asm__(".globl _start\n_start: call run\n");
#endif

void run(void)
{
	char text[] = "ticks 0000000000000000\n";
	word least = -1UL;

	for (int i = 0; i < ROUNDS; i++) {
		word start = now();

		round();
		start = now() - start;
		least = start < least ? start : least;
	}
	for (int i = 21; least; i--, least >>= 4)
		text[i] = "0123456789abcdef"[least & 15];
	call(WRITE, 1, (word)text, sizeof(text) - 1);
	call(REBOOT, 0xfee1dead, 672274793, 0x4321fedc);
	for (;;)
		;
}
