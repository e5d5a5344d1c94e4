/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests of this example have in common: SVE registers, in and out. */

#include <asm/sigcontext.h>
#include <asm/unistd.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VL_MAX 256
#define ZREGS 32
#define PREGS 16

/* As the assembler below stores them: register after register, in the current VL. */
struct regs {
	uint8_t z[ZREGS * VL_MAX];
	uint8_t p[PREGS * VL_MAX / 8];
	uint8_t ffr[VL_MAX / 8];
	uint64_t vl;
	int64_t result;
};

#define P_OFFSET 8192
#define FFR_OFFSET 8704
#define VL_OFFSET 8736
#define RESULT_OFFSET 8744
_Static_assert(offsetof(struct regs, p) == P_OFFSET, "p");
_Static_assert(offsetof(struct regs, ffr) == FFR_OFFSET, "ffr");
_Static_assert(offsetof(struct regs, vl) == VL_OFFSET, "vl");
_Static_assert(offsetof(struct regs, result) == RESULT_OFFSET, "result");

/* Loads all registers from `in`, makes a system call, stores them to `out`. */
void sve_call(const struct regs *in, struct regs *out, long number, long a, long b, long c);
/* Loads all registers from `in`, waits for `*flag`, stores them to `out`. */
void sve_wait(const struct regs *in, struct regs *out, volatile int *flag);

#define STRING(x) #x
#define TEXT(x) STRING(x)
asm(".arch armv8-a+sve\n"
    ".altmacro\n"
    ".macro each from, to, op, reg, base\n"
    "	\\op \\reg\\()\\from, [\\base, #\\from, mul vl]\n"
    "	.if \\to - \\from\n"
    "	each %(\\from + 1), \\to, \\op, \\reg, \\base\n"
    "	.endif\n"
    ".endm\n"
    ".macro enter\n"
    "	stp d8, d9, [sp, #-64]!\n"
    "	stp d10, d11, [sp, #16]\n"
    "	stp d12, d13, [sp, #32]\n"
    "	stp d14, d15, [sp, #48]\n"
    "	mov x9, x0\n"
    "	mov x10, x1\n"
    "	mov x12, #" TEXT(FFR_OFFSET) "\n"
    "	add x11, x9, x12\n"
    "	ldr p0, [x11]\n"
    "	wrffr p0.b\n"
    "	add x11, x9, #" TEXT(P_OFFSET) "\n"
    "	each 0, 15, ldr, p, x11\n"
    "	each 0, 31, ldr, z, x9\n"
    ".endm\n"
    ".macro leave\n"
    "	str x0, [x10, #" TEXT(RESULT_OFFSET) "]\n"
    "	rdvl x11, #1\n"
    "	str x11, [x10, #" TEXT(VL_OFFSET) "]\n"
    "	each 0, 31, str, z, x10\n"
    "	add x11, x10, #" TEXT(P_OFFSET) "\n"
    "	each 0, 15, str, p, x11\n"
    "	mov x12, #" TEXT(FFR_OFFSET) "\n"
    "	add x11, x10, x12\n"
    "	rdffr p0.b\n"
    "	str p0, [x11]\n"
    "	ldp d14, d15, [sp, #48]\n"
    "	ldp d12, d13, [sp, #32]\n"
    "	ldp d10, d11, [sp, #16]\n"
    "	ldp d8, d9, [sp], #64\n"
    "	ret\n"
    ".endm\n"
    ".type sve_call, %function\n"
    "sve_call:\n"
    "	enter\n"
    "	mov x8, x2\n"
    "	mov x0, x3\n"
    "	mov x1, x4\n"
    "	mov x2, x5\n"
    "	mov x3, #0\n"
    "	mov x4, #0\n"
    "	svc #0\n"
    "	leave\n"
    ".type sve_wait, %function\n"
    "sve_wait:\n"
    "	enter\n"
    "1:	ldr w11, [x2]\n"
    "	cbz w11, 1b\n"
    "	leave\n"
    ".noaltmacro\n");

static int tests, failures;
static const char *company = "alone"; /* who else runs on this CPU */

static inline void report(bool good, const char *what, int vl)
{
	printf("%sok %d VL %d, %s: %s\n", good ? "" : "not ", ++tests, vl, company, what);
	failures += !good;
}

static inline int finish(void)
{
	printf("1..%d\n", tests);
	return failures ? 1 : 0;
}

/* Without a system call: it would be one that clears TIF_SVE. */
static inline void spin(long milliseconds)
{
	uint64_t hertz, now, end;

	asm volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
	asm volatile("isb; mrs %0, cntvct_el0" : "=r"(now));
	end = now + hertz * milliseconds / 1000;
	while (now < end)
		asm volatile("isb; mrs %0, cntvct_el0" : "=r"(now));
}

/* Without libc, which may use SVE itself. */
static inline long syscall0(long number)
{
	register long x8 asm("x8") = number;
	register long x0 asm("x0");

	asm volatile("svc #0" : "=r"(x0) : "r"(x8) : "memory");
	return x0;
}

static inline void use_sve(void)
{
	asm volatile(".arch armv8-a+sve\n	rdvl x9, #1" ::: "x9");
}

/* No byte of Z is 0, none is the same at the same place with another seed. */
static inline void fill(struct regs *regs, int vl, int seed)
{
	for (int i = 0; i < ZREGS * vl; i++)
		regs->z[i] = 1 + (i * 7 + seed) % 251;
	for (int i = 0; i < PREGS * vl / 8; i++)
		regs->p[i] = 1 + (i * 5 + seed) % 251;
	memset(regs->ffr, 0xff, vl / 8);
}

static inline bool zeroes(const uint8_t *bytes, int count)
{
	while (count)
		if (bytes[--count])
			return false;
	return true;
}

/* What a system call leaves: V, and nothing else. The VL may have changed meanwhile. */
static inline bool only_v(const struct regs *in, int vl, const struct regs *out, int new_vl)
{
	bool good = out->vl == (uint64_t)new_vl;

	for (int i = 0; i < ZREGS; i++) {
		good = good && !memcmp(out->z + i * new_vl, in->z + i * vl, 16);
		good = good && zeroes(out->z + i * new_vl + 16, new_vl - 16);
	}
	return good && zeroes(out->p, PREGS * new_vl / 8) && zeroes(out->ffr, new_vl / 8);
}

static inline bool everything(const struct regs *in, int vl, const struct regs *out)
{
	return out->vl == (uint64_t)vl && !memcmp(out->z, in->z, ZREGS * vl) &&
	       !memcmp(out->p, in->p, PREGS * vl / 8) && !memcmp(out->ffr, in->ffr, vl / 8);
}

static inline bool set_vl(int vl)
{
	return prctl(PR_SVE_SET_VL, vl) >= 0 &&
	       (prctl(PR_SVE_GET_VL) & PR_SVE_VL_LEN_MASK) == vl;
}

/* Another task, which has all bits set in registers of `vl` bytes whenever it runs. */
static inline pid_t rival(int vl)
{
	static struct regs ones, after;
	struct timespec nap = { 0, 200000 };
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	set_vl(vl);
	memset(&ones, 0xff, sizeof(ones));
	for (int i = 0;; i++) {
		int flag = 1;

		sve_call(&ones, &after, __NR_sched_yield, 0, 0, 0);
		sve_wait(&ones, &after, &flag);
		spin(1);
		if (i % 4 == 0)
			nanosleep(&nap, NULL);
	}
}

static inline void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static inline void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static inline void setup(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!(getauxval(AT_HWCAP) & HWCAP_SVE)) {
		printf("1..0 # SKIP no SVE\n");
		exit(0);
	}
	pin(0);
}

/* The first record with `magic` in the frame that `context` is part of. */
static inline struct _aarch64_ctx *record(ucontext_t *context, uint32_t magic)
{
	struct _aarch64_ctx *head = (void *)context->uc_mcontext.__reserved;

	while (head->magic && head->magic != magic) {
		if (head->magic == EXTRA_MAGIC)
			head = (void *)((struct extra_context *)head)->datap;
		else
			head = (void *)((char *)head + head->size);
	}
	return head->magic ? head : NULL;
}
