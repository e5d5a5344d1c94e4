// SPDX-License-Identifier: GPL-2.0
/* What a tracer sees of a tracee's vector state, and what the tracee sees of its changes. */

#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "vector.h"

#ifndef NT_RISCV_VECTOR
#define NT_RISCV_VECTOR 0x901
#endif
#define FIXED offsetof(struct vector, v)

/* Written by the tracee, read by the tracer. */
static struct vector *after;

enum stop { SIGNAL, BREAK, ENTRY, EXIT, STOPS };
static const char *const stops[STOPS] = { "signal", "ebreak", "call's entry", "call's exit" };

static void tracee(enum stop stop, bool used)
{
	struct vector state;

	ptrace(PTRACE_TRACEME, 0, 0, 0);
	v_make(&state, 5);
	v_load(&state);
	sys3(SYS_kill, sys0(SYS_getpid), SIGSTOP, 0);
	v_load(&state);
	if (!used)
		sys0(SYS_getppid);
	if (stop == SIGNAL)
		sys3(SYS_kill, sys0(SYS_getpid), SIGUSR1, 0);
	else if (stop == BREAK)
		asm volatile(".option push\n\t.option norvc\n\tebreak\n\t.option pop" ::: "memory");
	else
		sys0(SYS_gettid);
	v_store(after);
	sys3(SYS_exit, 0, 0, 0);
}

static bool get(pid_t child, struct vector *state)
{
	struct iovec part = { state, sizeof(*state) };

	memset(state, 0xee, sizeof(*state));
	return !ptrace(PTRACE_GETREGSET, child, NT_RISCV_VECTOR, &part);
}

static bool set(pid_t child, struct vector *state, size_t registers)
{
	struct iovec part = { state, FIXED + registers };

	if (!ptrace(PTRACE_SETREGSET, child, NT_RISCV_VECTOR, &part))
		return true;
	ksft_print_msg("set: errno %d\n", errno);
	return false;
}

static bool stopped(pid_t child, int signal)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFSTOPPED(status) &&
	       (WSTOPSIG(status) & 0x7f) == signal;
}

/* Past the ebreak. */
static bool step_over(pid_t child)
{
	unsigned long registers[32];
	struct iovec part = { registers, sizeof(registers) };

	if (ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &part))
		return false;
	registers[0] += 4;
	return !ptrace(PTRACE_SETREGSET, child, NT_PRSTATUS, &part);
}

/* Runs it to where it is to be looked at. */
static bool run_to(pid_t child, enum stop stop, bool used)
{
	bool good = stopped(child, SIGSTOP);

	if (stop == SIGNAL || stop == BREAK) {
		good = good && !ptrace(PTRACE_CONT, child, 0, 0);
		good = good && stopped(child, stop == SIGNAL ? SIGUSR1 : SIGTRAP);
		return stop == BREAK ? good && step_over(child) : good;
	}
	/* getppid's two stops, then gettid's. */
	for (int i = 0; i < (used ? 0 : 2) + (stop == ENTRY ? 1 : 2); i++)
		good = good && !ptrace(PTRACE_SYSCALL, child, 0, 0) && stopped(child, SIGTRAP);
	return good;
}

enum change { NONE, ALL, PART, FIXED_PART, TWICE, CHANGES };
static const char *const changes[CHANGES] = { "read", "set", "v0 set", "no register set",
					      "read and set twice" };

static void check(enum stop stop, bool used, enum change change)
{
	struct vector seen, wanted, mine;
	bool good;
	pid_t child = fork();

	if (!child)
		tracee(stop, used);
	v_make(&mine, 0x12);
	if (used && stop == BREAK)
		v_make(&wanted, 5);
	else
		v_make_discarded(&wanted, 5);
	good = run_to(child, stop, used);
	if (change != ALL && change != PART)
		good = get(child, &seen) && v_check(&seen, &wanted) && good;
	if (change == PART) {
		memcpy(wanted.v, mine.v, mine.vlenb);
		wanted.vl = mine.vl;
		wanted.vtype = mine.vtype;
		wanted.vcsr = mine.vcsr;
		good = set(child, &mine, mine.vlenb) && good;
	} else if (change == FIXED_PART) {
		wanted.vcsr = 3;
		good = set(child, &wanted, 0) && good;
	} else if (change != NONE) {
		good = set(child, &mine, 32 * mine.vlenb) && good;
		wanted = mine;
	}
	if (change == TWICE) {
		good = get(child, &seen) && v_check(&seen, &wanted) && good;
		v_make(&wanted, 0x37);
		good = set(child, &wanted, 32 * mine.vlenb) && good;
	}
	if (change != NONE)
		good = get(child, &seen) && v_check(&seen, &wanted) && good;
	memset(after, 0, sizeof(*after));
	good = !ptrace(PTRACE_CONT, child, 0, 0) && good;
	good = child_passed(child) && v_check(after, &wanted) && good;
	ksft_test_result(good, "%s, %s, %s\n", stops[stop], used ? "used" : "discarded",
			 changes[change]);
}

int main(void)
{
	struct vector state;
	pid_t child;

	ksft_print_header();
	ksft_set_plan(2 * STOPS * CHANGES + 1);
	after = mmap(NULL, sizeof(*after), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);

	child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	v_make(&state, 1);
	ksft_test_result(stopped(child, SIGSTOP) && !set(child, &state, 32 * state.vlenb) &&
				 errno == EINVAL && !get(child, &state) && errno == EINVAL &&
				 !ptrace(PTRACE_CONT, child, 0, 0) && child_passed(child),
			 "no state: EINVAL\n");
	for (enum stop stop = SIGNAL; stop < STOPS; stop++)
		for (int used = 0; used < 2; used++)
			for (enum change change = NONE; change < CHANGES; change++)
				check(stop, used, change);
	ksft_finished();
}
