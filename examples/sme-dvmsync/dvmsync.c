// SPDX-License-Identifier: GPL-2.0
/*
 * PID 1 of a guest with two cpus, for erratum 4193714.  A thread on cpu 1 may have used SME, and a
 * thread on cpu 0 unmaps pages of the same address space, each while the other is in user mode:
 * they take turns.  Prints for two batches, more than a second apart, how many pages were unmapped,
 * and how many function call interrupts cpu 1 had meanwhile, by /proc/interrupts.
 *
 *   /init USE DOES    USE: never, once, each (in each turn)
 *                     DOES in each turn: nothing, calls (getppid), sleeps (for 100 us), switches
 *                     (lets a third thread run on cpu 1)
 *
 * No C library: make builds it with the cross compiler alone.
 */
#define NR_mkdirat 34
#define NR_mount 40
#define NR_openat 56
#define NR_close 57
#define NR_read 63
#define NR_write 64
#define NR_nanosleep 101
#define NR_sched_setaffinity 122
#define NR_sched_yield 124
#define NR_reboot 142
#define NR_getppid 173
#define NR_munmap 215
#define NR_mmap 222

#define AT_FDCWD -100
#define POWER_OFF 0x4321fedcL
#define PROT_READ_WRITE 3
#define MAP_PRIVATE_ANONYMOUS 0x22
#define PAGE 4096L
#define ASLEEP 100000L /* ns */
#define BATCHES 2
#define PAGES 1000    /* in a batch */
#define APART_MS 1500 /* so that a timeout of a second is over */
/* VM, FS, FILES, SIGHAND, THREAD, SYSVSEM: a thread. */
#define THREAD_FLAGS (0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000)

enum use { NEVER, ONCE, EACH };
enum does { NOTHING, CALLS, SLEEPS, SWITCHES };

struct time {
	long seconds, ns;
};

static enum use use;
static enum does does;
static volatile int peers_turn;
static long resume; /* by the counter, when the second batch begins */
static char stacks[2][16384] __attribute__((aligned(16)));

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

#define CALL1(n, a) call(n, (long)(a), 0, 0, 0, 0, 0)
#define CALL2(n, a, b) call(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define CALL3(n, a, b, c) call(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)

/* Streaming mode and ZA, and out of both. */
static void use_sme(void)
{
	__asm__ volatile(".arch armv9-a+sme\n\t"
			 "smstart\n\t"
			 "ptrue p0.s\n\t"
			 "ptrue p1.s\n\t"
			 "mov z0.s, #1\n\t"
			 "addha za0.s, p0/m, p1/m, z0.s\n\t"
			 "smstop\n\t"
			 ".arch armv8-a" ::
				 : "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8",
				   "v9", "v10", "v11", "v12", "v13", "v14", "v15");
}

static void sleep_for(long ns)
{
	const struct time request = { ns / 1000000000, ns % 1000000000 };

	CALL2(NR_nanosleep, &request, 0);
}

/* Ticks of the counter. */
static long now(void)
{
	long ticks;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}

static long ticks_of(long ms)
{
	long frequency;

	__asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
	return frequency * ms / 1000;
}

/* yield: an emulator that runs one cpu at a time goes on to the other. */
static void wait_for_turn(int of_peer)
{
	while (peers_turn != of_peer)
		__asm__ volatile("yield" ::: "memory");
}

static void stay_on(int cpu)
{
	const long mask = 1L << cpu;

	CALL3(NR_sched_setaffinity, 0, sizeof(mask), &mask);
}

static void act(void)
{
	if (use == EACH)
		use_sme();
	if (does == CALLS)
		CALL1(NR_getppid, 0);
	if (does == SLEEPS)
		sleep_for(ASLEEP);
	if (does == SWITCHES)
		CALL1(NR_sched_yield, 0);
	for (volatile int i = 0; i < 2000; i++)
		;
}

/* The thread on cpu 1; it ends with the guest. */
static void other_thread(void)
{
	stay_on(1);
	if (use == ONCE)
		use_sme();
	for (int batch = 0; batch < BATCHES; batch++) {
		while (now() < resume)
			act();
		for (int i = 0; i < PAGES; i++) {
			act();
			peers_turn = 1;
			wait_for_turn(0);
		}
	}
	for (;;)
		sleep_for(ASLEEP);
}

static void third_thread(void)
{
	stay_on(1);
	for (;;)
		CALL1(NR_sched_yield, 0);
}

static void start_thread(void (*thread)(void), char *stack)
{
	register long x8 __asm__("x8") = 220; /* clone */
	register long x0 __asm__("x0") = THREAD_FLAGS;
	register char *x1 __asm__("x1") = stack + sizeof(stacks[0]);
	register long x2 __asm__("x2") = 0;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "br %[thread]\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), [thread] "r"(thread)
			 : "memory", "x30", "cc");
}

/* The number of function call interrupts of cpu 1: the second of its line, "IPI1: 12 34  Function". */
static long interrupts(void)
{
	static char text[65536];
	long file = CALL3(NR_openat, AT_FDCWD, "/proc/interrupts", 0), length = 0, got;
	char *line = text;

	while ((got = CALL3(NR_read, file, text + length, sizeof(text) - 1 - length)) > 0)
		length += got;
	text[length] = 0;
	CALL1(NR_close, file);
	for (char *at = text; *at; at++) {
		long count = 0;

		if (*at == '\n')
			line = at + 1;
		if (at[0] != 'F' || at[1] != 'u' || at[2] != 'n' || at[3] != 'c')
			continue;
		while (*line++ != ':')
			;
		for (int cpu = 0; cpu < 2; cpu++) {
			for (count = 0; *line == ' '; line++)
				;
			for (; *line >= '0' && *line <= '9'; line++)
				count = count * 10 + *line - '0';
		}
		return count;
	}
	return -1;
}

static void print(long number, char last)
{
	char text[24];
	int at = sizeof(text);

	text[--at] = last;
	do
		text[--at] = '0' + number % 10;
	while (number /= 10);
	CALL3(NR_write, 1, text + at, sizeof(text) - at);
}

void run(const long *first)
{
	char **words = (char **)(first + 1);

	use = words[1][0] == 'n' ? NEVER : words[1][0] == 'o' ? ONCE : EACH;
	for (int i = NOTHING; i <= SWITCHES; i++)
		if (words[2][1] == "oalw"[i]) /* the second letter */
			does = i;
	CALL3(NR_mkdirat, AT_FDCWD, "/proc", 0755);
	call(NR_mount, (long)"proc", (long)"/proc", (long)"proc", 0, 0, 0);
	stay_on(0);
	start_thread(other_thread, stacks[0]);
	if (does == SWITCHES)
		start_thread(third_thread, stacks[1]);
	for (int batch = 0; batch < BATCHES; batch++) {
		long before;

		wait_for_turn(1);
		before = interrupts();
		for (int i = 0; i < PAGES; i++) {
			char *page = (char *)call(NR_mmap, 0, PAGE, PROT_READ_WRITE,
						  MAP_PRIVATE_ANONYMOUS, -1, 0);

			*page = 1;
			wait_for_turn(1);
			CALL2(NR_munmap, page, PAGE);
			if (i + 1 == PAGES && batch + 1 < BATCHES)
				resume = now() + ticks_of(APART_MS);
			peers_turn = 0;
		}
		CALL3(NR_write, 1, "batch: ", 7);
		print(PAGES, ' ');
		print(interrupts() - before, '\n');
		sleep_for((APART_MS - 100) * 1000000L);
	}
	call(NR_reboot, 0xfee1deadL, 672274793, POWER_OFF, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n\tmov x0, sp\n\tbl run\n");
