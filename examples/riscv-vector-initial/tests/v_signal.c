// SPDX-License-Identifier: GPL-2.0
/* The vector state in signal frames, and after the return from a handler. */

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#include "vector.h"

#define MAGIC 0x53465457
/* struct sigcontext: 32 registers, then 129 + 1 words, then the first header. */
#define HEADER (32 * 8 + 130 * 4)

/* struct __riscv_ctx_hdr and struct __sc_riscv_v_state */
struct frame {
	uint32_t magic, size;
	unsigned long vstart, vl, vtype, vcsr, vlenb;
	unsigned char *data;
};

static struct vector seen, put;
static volatile bool had, change, uses, calls, skip;
static volatile int hits;
static int ends[2];
static char page[4096];

static void handler(int signal, siginfo_t *info, void *context)
{
	ucontext_t *user = context;
	struct frame *frame = (void *)((char *)&user->uc_mcontext + HEADER);

	(void)signal;
	(void)info;
	had = frame->magic == MAGIC;
	if (had) {
		seen.vstart = frame->vstart;
		seen.vl = frame->vl;
		seen.vtype = frame->vtype;
		seen.vcsr = frame->vcsr;
		seen.vlenb = frame->vlenb;
		memcpy(seen.v, frame->data, 32 * frame->vlenb);
	}
	if (had && change) {
		frame->vl = put.vl;
		frame->vtype = put.vtype;
		frame->vcsr = put.vcsr;
		memcpy(frame->data, put.v, 32 * put.vlenb);
	}
	if (uses) {
		struct vector mine;

		v_make(&mine, 0x41);
		v_load(&mine);
	}
	if (calls)
		sys0(SYS_getppid);
	if (skip)
		user->uc_mcontext.__gregs[0] += 4;
	hits++;
}

/* The ways for a signal to come. */
static void by_kill(void)
{
	sys3(SYS_kill, sys0(SYS_getpid), SIGUSR1, 0);
}

static void by_timer(void)
{
	int before = hits;

	while (hits == before)
		;
}

static void by_fault(void)
{
	asm volatile(".option push\n\t.option norvc\n\tsw x0, 0(x0)\n\t.option pop" ::: "memory");
}

/* While the task does not run: its registers are another's. */
static void by_sleep(void)
{
	struct timespec second = { 1, 0 };

	sys3(SYS_nanosleep, (long)&second, 0, 0);
}

/* In a call in which the kernel uses the registers: SIGIO says that there is something to read. */
static void by_copy(void)
{
	sys3(SYS_write, ends[1], (long)page, sizeof(page));
}

static void start_timer(void)
{
	struct itimerval once = { .it_value = { 0, 20000 } };

	sys3(SYS_setitimer, ITIMER_REAL, (long)&once, 0);
}

/* What the program has when the signal comes: used registers or discarded ones. */
static void check(const char *name, void (*way)(void), bool used)
{
	struct vector state, wanted;

	for (int what = 0; what < 8; what++) {
		bool good;

		v_make(&state, 1 + what);
		change = what & 1;
		uses = what & 2;
		calls = what & 4;
		skip = way == by_fault;
		memset(&seen, 0xee, sizeof(seen));
		v_make(&put, 0x33);
		if (way == by_timer || way == by_sleep)
			start_timer();
		if (way == by_copy)
			sys3(SYS_read, ends[0], (long)page, sizeof(page));
		v_load(&state);
		if (!used)
			sys0(SYS_getppid);
		way();
		if (change)
			wanted = put;
		else if (used)
			wanted = state;
		else
			v_make_discarded(&wanted, state.vcsr);
		good = v_is(&wanted);
		if (!used)
			v_make_discarded(&state, state.vcsr);
		good = v_check(&seen, &state) && good && had;
		ksft_test_result(good, "%s, %s%s%s%s\n", name, used ? "used" : "discarded",
				 change ? ", frame changed" : "", uses ? ", handler uses" : "",
				 calls ? ", handler calls" : "");
	}
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	static char stack[65536];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };

	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGIO, &action, NULL);
	action.sa_flags |= SA_ONSTACK;
	sigaction(SIGSEGV, &action, NULL);
	sigaltstack(&other, NULL);
	ksft_print_header();
	ksft_set_plan(58);
	if (pipe(ends) || fcntl(ends[0], F_SETOWN, getpid()) ||
	    fcntl(ends[0], F_SETFL, O_NONBLOCK | O_ASYNC))
		ksft_exit_fail_msg("pipe\n");

	had = true;
	by_kill();
	ksft_test_result(!had, "no state: none in the frame\n");
	uses = true;
	by_kill();
	ksft_test_result(!had && v_is_discarded(1), "used in the handler first: discarded\n");

	check("kill", by_kill, false);
	check("sleep", by_sleep, false);
	check("copy", by_copy, false);
	check("timer", by_timer, false);
	check("timer", by_timer, true);
	check("fault", by_fault, false);
	check("fault", by_fault, true);
	ksft_finished();
}
