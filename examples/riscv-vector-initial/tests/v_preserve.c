// SPDX-License-Identifier: GPL-2.0
/* What a program has in the vector registers stays there until it makes a system call. */

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "vector.h"

#define PAGES 64
#define PAGE 4096UL
#define ROUNDS 4000000UL /* tens of ticks */

/* Another task that has the processor half of the time, and the vector unit. */
static pid_t rival(bool calls)
{
	pid_t child = fork();

	if (!child) {
		struct vector state;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		v_make(&state, 0x55);
		for (;;) {
			v_load(&state);
			spin(20000);
			if (calls)
				sys0(SYS_sched_yield);
		}
	}
	return child;
}

static volatile char *pages(bool shared)
{
	int how = MAP_ANONYMOUS | (shared ? MAP_SHARED : MAP_PRIVATE);

	return mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, how, -1, 0);
}

static void touch(volatile char *memory)
{
	for (unsigned long i = 0; i < PAGES; i++)
		memory[i * PAGE] = (char)i;
}

static void check(const char *beside)
{
	volatile char *memory[4] = { pages(false), pages(true), pages(false), pages(true) };
	struct vector state, got;
	bool good;

	v_make(&state, 1);
	v_load(&state);
	touch(memory[0]);
	v_store(&got);
	ksft_test_result(v_check(&got, &state), "used, page faults%s\n", beside);

	sys0(SYS_getppid);
	touch(memory[1]);
	ksft_test_result(v_is_discarded(1), "discarded, page faults%s\n", beside);

	v_make(&state, 2);
	v_load(&state);
	spin(ROUNDS);
	v_store(&got);
	good = v_check(&got, &state);
	ksft_test_result(good, "used, interrupts%s\n", beside);

	sys0(SYS_getppid);
	spin(ROUNDS);
	ksft_test_result(v_is_discarded(2), "discarded, interrupts%s\n", beside);

	/* Not written since the last interrupt: clean, in the kernel's words. */
	v_load(&state);
	spin(ROUNDS);
	touch(memory[2]);
	spin(ROUNDS);
	touch(memory[3]);
	v_store(&got);
	ksft_test_result(v_check(&got, &state), "used, both, for long%s\n", beside);

	sys0(SYS_getppid);
	spin(ROUNDS);
	asm volatile(V_OPTION "vsetivli x0, 16, e8, m1, ta, ma\n\tvmv.v.i v9, 4\n\t.option pop");
	spin(ROUNDS);
	v_store(&got);
	v_make_discarded(&state, 2);
	memset(state.v + 9 * state.vlenb, 4, 16);
	state.vl = 16;
	state.vtype = 0xc0;
	ksft_test_result(v_check(&got, &state), "discarded, one register used%s\n", beside);

	for (int i = 0; i < 4; i++)
		munmap((void *)memory[i], PAGES * PAGE);
}

int main(void)
{
	pid_t other;

	ksft_print_header();
	ksft_set_plan(18);
	check("");
	other = rival(false);
	check(", beside a task");
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	other = rival(true);
	check(", beside a task that calls");
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	ksft_finished();
}
