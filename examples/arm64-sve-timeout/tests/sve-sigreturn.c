// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A signal frame whose SVE registers cannot be read ends in SIGSEGV, without a complaint of the
 * kernel's, also if it takes that system call for a reason to enable the SVE access trap. Needs
 * registers that fill a page: a VL of 128 at least.
 */

#include "sve.h"

#define PAGE 4096
#define PAGES 16
#define SECOND_OVER 1300 /* ms */

static struct regs in, out;
static volatile int handled;
static bool late;

static void handler(int signal, siginfo_t *info, void *pointer)
{
	static char room[PAGES * PAGE] __attribute__((aligned(PAGE)));
	ucontext_t *context = pointer;
	struct sve_context *sve = (void *)record(context, SVE_MAGIC);
	struct extra_context *extra = (void *)record(context, EXTRA_MAGIC);
	char *frame = (char *)info, *copy, *hole, *z;
	size_t size;

	handled = 1;
	if (!sve || sve->head.size <= sizeof(*sve))
		return; /* not what is to be tested */
	/* A page of the copy with registers only, from its first byte. */
	z = (char *)sve + SVE_SIG_REGS_OFFSET;
	hole = room + PAGES / 2 * PAGE;
	copy = hole - (z - frame) - (sve->head.size - SVE_SIG_REGS_OFFSET - PAGE) / 32 * 16;
	size = (char *)sve + sve->head.size - frame + 16;
	if (extra && (char *)extra->datap + extra->size - frame > (long)size)
		size = (char *)extra->datap + extra->size - frame;
	memcpy(copy, frame, size);
	if (extra) {
		char *there = copy + ((char *)extra - frame);

		((struct extra_context *)there)->datap += copy - frame;
	}
	mprotect(hole, PAGE, PROT_NONE);
	if (late) {
		use_sve();
		spin(SECOND_OVER);
	}
	asm volatile("mov sp, %0\n	mov x8, %1\n	svc #0" ::"r"(copy), "i"(__NR_rt_sigreturn)
		     : "x8", "memory");
	(void)signal;
	__builtin_unreachable();
}

/* Back in user mode, with what the kernel has loaded. */
static void segmentation_fault(int signal)
{
	(void)signal;
	_exit(0);
}

static void child(int vl)
{
	static char stack[PAGES * PAGE];
	struct itimerval timer = { .it_value = { 0, 20000 } };
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	struct sigaction fault = { .sa_handler = segmentation_fault, .sa_flags = SA_ONSTACK };

	sigaltstack(&other, NULL);
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGALRM, &action, NULL);
	fill(&in, vl, 7);
	setitimer(ITIMER_REAL, &timer, NULL);
	sve_wait(&in, &out, &handled);
	_exit(3);
}

static void test(const char *what, int vl)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		child(vl);
	waitpid(pid, &status, 0);
	report(status == 0, what, vl);
}

int main(void)
{
	bool some = false;
	pid_t pid;

	setup();
	for (int vl = VL_MAX / 2; vl <= VL_MAX; vl *= 2) {
		if (!set_vl(vl))
			continue;
		some = true;
		company = "with another";
		pid = rival(vl);
		late = false;
		test("an unreadable signal frame", vl);
		late = true;
		test("an unreadable signal frame, late", vl);
		end(pid);
	}
	if (!some) {
		printf("1..0 # SKIP VL too small\n");
		return 0;
	}
	return finish();
}
