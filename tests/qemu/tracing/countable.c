// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program whose system calls, vector instructions, forks and sleeps can be counted by hand:
 * tests/qemu/test_tracing.py has them in the order in which they stand in run().
 * No libc, so nothing is called or used that is not written here.
 */
#define CLOCK_MONOTONIC_RAW 4
#define SIGCHLD 17
#define SIGUSR1 10

/* USE(n): n vector instructions, one behind the other. */
#define USE(n) __asm__ volatile(PREFIX ".rept " #n "\n" VECTOR "\n.endr" ::: "memory")

#if defined(__aarch64__)
#define PREFIX ".arch_extension sve\n"
#define VECTOR "add z0.b, z0.b, z0.b"
#elif defined(__riscv)
#define PREFIX ".option arch, +v\n"
#define VECTOR "vsetivli zero, 1, e8, m1, ta, ma"
#else
#define PREFIX ""
#define VECTOR "vpxor %%ymm0, %%ymm0, %%ymm0"
#endif

#if defined(__x86_64__)
#define NR(generic, x86) (x86)
#else
#define NR(generic, x86) (generic)
#endif
enum number {
	write = NR(64, 1),
	exit_group = NR(94, 231),
	nanosleep = NR(101, 35),
	clock_gettime = NR(113, 228),
	kill = NR(129, 62),
	rt_sigaction = NR(134, 13),
	getpid = NR(172, 39),
	getppid = NR(173, 110),
	clone = NR(220, 56),
	wait4 = NR(260, 61),
};

static long call(long number, long a, long b, long c, long d)
{
#if defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d, x4 __asm__("x4") = 0;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory");
	return x0;
#elif defined(__riscv)
	register long a7 __asm__("a7") = number;
	register long a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
	register long a3 __asm__("a3") = d, a4 __asm__("a4") = 0;

	__asm__ volatile("ecall"
			 : "+r"(a0)
			 : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4)
			 : "memory");
	return a0;
#else
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = 0;
	long rax = number;

	__asm__ volatile("syscall"
			 : "+a"(rax)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return rax;
#endif
}

static void sleep_ms(long ms)
{
	const long time[2] = { 0, ms * 1000000 };

	call(nanosleep, (long)time, 0, 0, 0);
}

static char line[128];
static long length;

static void put(const char *text)
{
	while (*text)
		line[length++] = *text++;
}

static void put_clock(void)
{
	long time[2], ns;

	call(clock_gettime, CLOCK_MONOTONIC_RAW, (long)time, 0, 0);
	ns = time[0] * 1000000000 + time[1];
	put(" ");
	for (int shift = 60; shift >= 0; shift -= 4)
		line[length++] = "0123456789abcdef"[ns >> shift & 15];
}

static void handler(int number)
{
	(void)number;
	USE(6);
}

#if defined(__x86_64__)
#define SA_RESTORER 0x04000000
void restorer(void);
__asm__("restorer: mov $15, %eax\n syscall");
#else
#define SA_RESTORER 0
#define restorer 0
#endif

static void make_child(void)
{
	if (call(clone, SIGCHLD, 0, 0, 0) == 0) {
		USE(4);
		sleep_ms(1);
		call(exit_group, 0, 0, 0, 0);
	}
	call(wait4, -1, 0, 0, 0);
}

__attribute__((used)) static void run(void)
{
	const long action[4] = { (long)handler, SA_RESTORER, (long)restorer, 0 };

	put("countable");
	put_clock();
	USE(1);
	call(getppid, 0, 0, 0, 0);
	USE(2);
	call(getppid, 0, 0, 0, 0);
	USE(3);
	call(getppid, 0, 0, 0, 0);
	USE(500);
	call(getppid, 0, 0, 0, 0);
	call(getppid, 0, 0, 0, 0);
	for (int i = 0; i < 3; i++) {
		USE(7);
		sleep_ms(50);
		put_clock();
	}
	for (int i = 0; i < 4; i++)
		make_child();
	call(rt_sigaction, SIGUSR1, (long)action, 0, 8);
	call(kill, call(getpid, 0, 0, 0, 0), SIGUSR1, 0, 0);
	put_clock();
	put("\n");
	call(write, 1, (long)line, length, 0);
	call(exit_group, 0, 0, 0, 0);
}

__asm__(".globl _start\n"
	"_start:\n"
#if defined(__aarch64__)
	"bl run\n"
#elif defined(__riscv)
	"jal run\n"
#else
	"call run\n"
#endif
);
