// SPDX-License-Identifier: GPL-2.0
/* Tasks that do everything at random, interrupted by signals whose handler uses the registers. */

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "vector.h"

#define TASKS 4
#define STEPS 1500
#define BIG 16384

static unsigned long seed;
static char data[BIG], back[BIG];

static unsigned int pick(unsigned int below)
{
	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return (unsigned int)(seed >> 33) % below;
}

static void handler(int signal)
{
	struct vector mine;

	(void)signal;
	v_make(&mine, 0x66);
	v_load(&mine);
	spin(500);
	if (seed & 4096)
		sys0(SYS_getppid);
	else if (!v_is(&mine))
		_exit(3);
}

/* One that keeps the state, and one that loses it. */
static bool keeps(struct vector *state)
{
	char *fresh;
	bool good;

	switch (pick(3)) {
	case 0:
		v_load(state);
		spin(pick(30000));
		return v_is(state);
	case 1:
		fresh = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
		v_load(state);
		for (int i = 0; i < 16; i++)
			fresh[i * 4096] = 1;
		good = v_is(state);
		munmap(fresh, 65536);
		return good;
	default:
		v_load(state);
		sys0(SYS_getppid);
		spin(pick(30000));
		return v_is_discarded(state->vcsr);
	}
}

static bool loses(struct vector *state, int *ends)
{
	struct vector other;
	struct timespec moment = { 0, 1000 };
	size_t size = 512 + pick(BIG - 512);

	if (pick(2))
		v_load(state);
	else
		asm volatile("csrw 0x00f, %0" : : "r"(state->vcsr));
	switch (pick(4)) {
	case 0:
		sys0(SYS_sched_yield);
		break;
	case 1:
		sys3(SYS_nanosleep, (long)&moment, 0, 0);
		break;
	case 2:
		memset(data, (int)pick(256), size);
		sys3(SYS_write, ends[1], (long)data, (long)size);
		sys3(SYS_read, ends[0], (long)back, (long)size);
		if (memcmp(data, back, size))
			return false;
		break;
	default:
		sys0(SYS_getppid);
		sys0(SYS_getppid);
	}
	v_store(&other);
	v_make_discarded(state, state->vcsr);
	return v_check(&other, state);
}

static int task(int number)
{
	struct itimerval often = { { 0, 3000 + number * 700 }, { 0, 3000 } };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct vector state;
	int ends[2];

	seed = 77 + number;
	sigaction(SIGALRM, &action, NULL);
	if (pipe(ends) || fcntl(ends[0], F_SETPIPE_SZ, 2 * BIG) < 0)
		return 4;
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < STEPS; i++) {
		v_make(&state, pick(128));
		if (!(pick(2) ? keeps(&state) : loses(&state, ends))) {
			ksft_print_msg("task %d, step %d\n", number, i);
			return 1;
		}
	}
	return 0;
}

int main(void)
{
	pid_t tasks[TASKS];

	ksft_print_header();
	ksft_set_plan(TASKS);
	fflush(stdout);
	for (int i = 0; i < TASKS; i++) {
		tasks[i] = fork();
		if (!tasks[i])
			_exit(task(i));
	}
	for (int i = 0; i < TASKS; i++)
		ksft_test_result(child_passed(tasks[i]), "task %d\n", i);
	ksft_finished();
}
