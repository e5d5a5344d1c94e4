// SPDX-License-Identifier: GPL-2.0
/* The vector registers after system calls: in a row, with a use between, with big copies. */

#include <fcntl.h>
#include <sys/mman.h>

#include "vector.h"

#define BIG (64 * 1024)

static char data[BIG], back[BIG];

static bool copies(int *ends, size_t size, unsigned int seed, bool fresh)
{
	char *to = back;
	bool good;

	for (size_t i = 0; i < size; i++)
		data[i] = (char)(i * 13 + seed);
	memset(back, 0, size);
	if (fresh) {
		to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (to == MAP_FAILED)
			return false;
	}
	good = sys3(SYS_write, ends[1], (long)data, size) == (long)size;
	good = good && sys3(SYS_read, ends[0], (long)to, size) == (long)size;
	good = v_is_discarded(seed & 7) && good && !memcmp(data, to, size);
	if (fresh)
		munmap(to, size);
	return good;
}

int main(void)
{
	struct vector state, got;
	int ends[2];

	ksft_print_header();
	ksft_set_plan(16);

	v_store(&state);
	memset(&got, 0, sizeof(got));
	got.vlenb = state.vlenb;
	ksft_test_result(v_check(&state, &got), "first use: all zero\n");

	v_make(&state, 5);
	v_load(&state);
	ksft_test_result(v_is(&state), "what was loaded is there\n");

	v_load(&state);
	sys0(SYS_getppid);
	ksft_test_result(v_is_discarded(5), "after a use: discarded, vcsr kept\n");

	sys0(SYS_getppid);
	ksft_test_result(v_is_discarded(5), "after no use: discarded\n");
	for (int i = 0; i < 100; i++)
		sys0(SYS_getppid);
	ksft_test_result(v_is_discarded(5), "after no use, many times: discarded\n");

	asm volatile(V_OPTION "vsetivli x0, 1, e8, m1, ta, ma\n\tvmv.v.i v5, 1\n\t.option pop");
	sys0(SYS_getppid);
	ksft_test_result(v_is_discarded(5), "one register used: discarded\n");

	asm volatile("csrw 0x00f, %0" : : "r"(2));
	sys0(SYS_getppid);
	sys0(SYS_getppid);
	ksft_test_result(v_is_discarded(2), "vcsr only: kept\n");
	asm volatile("csrw 0x00f, %0" : : "r"(7));
	for (int i = 0; i < 100; i++)
		sys0(SYS_sched_yield);
	ksft_test_result(v_is_discarded(7), "vcsr only, sched_yield: kept\n");

	asm volatile(V_OPTION "vsetvli x0, x0, e32, m1, ta, ma\n\t.option pop");
	sys0(SYS_getppid);
	ksft_test_result(v_is_discarded(7), "vsetvli only: vtype.vill\n");

	asm volatile("csrw 0x008, %0" : : "r"(1));
	sys0(SYS_getppid);
	ksft_test_result(v_is_discarded(7), "vstart only: zero\n");

	v_load(&state);
	sys0(-1);
	ksft_test_result(v_is_discarded(5), "a system call that there is not\n");

	if (pipe(ends) || fcntl(ends[0], F_SETPIPE_SZ, 2 * BIG) < 0)
		ksft_exit_fail_msg("pipe\n");
	v_load(&state);
	ksft_test_result(copies(ends, 4096, 5, false), "4 KiB through a pipe\n");
	ksft_test_result(copies(ends, 4096, 5, false), "4 KiB through a pipe, no use before\n");
	ksft_test_result(copies(ends, BIG, 5, false), "64 KiB through a pipe\n");
	ksft_test_result(copies(ends, BIG, 5, true), "64 KiB, faults in the copy\n");
	v_make(&state, 3);
	v_load(&state);
	ksft_test_result(copies(ends, BIG, 3, true), "64 KiB, faults in the copy, use before\n");
	ksft_finished();
}
