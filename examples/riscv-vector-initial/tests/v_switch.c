// SPDX-License-Identifier: GPL-2.0
/* No task sees what another has, or had, in the vector registers. */

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "vector.h"

#define TURNS 200

static int there[2], back[2];

/* What the other side does between its turns. */
enum way { USES, USED_ONCE, USES_NOT, USES_ANEW, WAYS };
static const char *const names[WAYS] = { "uses", "used once", "never uses", "new, uses" };

static void turn(enum way way, unsigned int seed)
{
	struct vector state;

	if (way == USES_NOT || (way == USED_ONCE && seed))
		return;
	v_make(&state, 0x20 + seed);
	v_load(&state);
}

static int other(enum way way)
{
	char byte;

	if (way != USES_ANEW) {
		for (unsigned int i = 0; i < TURNS; i++) {
			sys3(SYS_read, there[0], (long)&byte, 1);
			turn(way, i);
			sys3(SYS_write, back[1], (long)&byte, 1);
		}
		return 0;
	}
	for (unsigned int i = 0; i < TURNS; i++) {
		pid_t child;

		sys3(SYS_read, there[0], (long)&byte, 1);
		child = fork();
		if (!child) {
			struct vector zero = { 0 }, got;

			v_store(&got);
			zero.vlenb = got.vlenb;
			if (!v_check(&got, &zero))
				_exit(1);
			turn(USES, i);
			_exit(0);
		}
		if (!child_passed(child))
			return 1;
		sys3(SYS_write, back[1], (long)&byte, 1);
	}
	return 0;
}

static void check(enum way way, bool use)
{
	struct vector state;
	bool good = true;
	char byte = 0;
	pid_t child;

	if (pipe(there) || pipe(back))
		ksft_exit_fail_msg("pipe\n");
	child = fork();
	if (!child)
		_exit(other(way));
	v_make(&state, 6);
	v_load(&state);
	for (int i = 0; i < TURNS && good; i++) {
		if (use)
			v_load(&state);
		sys3(SYS_write, there[1], (long)&byte, 1);
		sys3(SYS_read, back[0], (long)&byte, 1);
		good = v_is_discarded(6);
	}
	if (!good)
		kill(child, SIGKILL);
	ksft_test_result(child_passed(child) && good, "%s, the other %s\n",
			 use ? "uses" : "used once", names[way]);
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
}

static void *thread(void *unused)
{
	struct vector zero = { 0 }, got;

	(void)unused;
	v_store(&got);
	zero.vlenb = got.vlenb;
	return v_check(&got, &zero) ? &there : NULL;
}

int main(int argc, char **argv)
{
	struct vector state, zero = { 0 };
	pthread_t one;
	void *result;
	pid_t child;

	if (argc > 1) {
		v_store(&state);
		zero.vlenb = state.vlenb;
		return !v_check(&state, &zero);
	}
	ksft_print_header();
	ksft_set_plan(2 * WAYS + 5);
	for (enum way way = USES; way < WAYS; way++)
		for (int use = 0; use < 2; use++)
			check(way, use);

	for (int use = 0; use < 2; use++) {
		v_make(&state, 4);
		if (use)
			v_load(&state);
		child = sys3(SYS_clone, SIGCHLD, 0, 0);
		if (!child) {
			v_store(&state);
			zero.vlenb = state.vlenb;
			_exit(!v_check(&state, &zero));
		}
		ksft_test_result(v_is_discarded(use ? 4 : 6) && child_passed(child),
				 "fork, %s: the parent's discarded, the child's zero\n",
				 use ? "used" : "not used");
	}

	v_load(&state);
	ksft_test_result(!pthread_create(&one, NULL, thread, NULL) && !pthread_join(one, &result) &&
				 result,
			 "a new thread's: zero\n");

	for (int use = 0; use < 2; use++) {
		child = fork();
		if (!child) {
			char *const words[] = { argv[0], "zero", NULL };

			v_make(&state, 4);
			v_load(&state);
			if (!use)
				sys0(SYS_getppid);
			sys3(SYS_execve, (long)"/proc/self/exe", (long)words, 0);
			_exit(2);
		}
		ksft_test_result(child_passed(child), "exec, %s: zero\n",
				 use ? "used" : "not used");
	}
	ksft_finished();
}
