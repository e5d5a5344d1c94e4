// SPDX-License-Identifier: GPL-2.0
/* The vector state in core dumps. */

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "vector.h"

#ifndef NT_RISCV_VECTOR
#define NT_RISCV_VECTOR 0x901
#endif
#define FIXED offsetof(struct vector, v)
#define CORE "core" /* the default pattern */

static volatile bool ready;

static void *waits(void *unused)
{
	struct vector state;

	(void)unused;
	v_make(&state, 3);
	v_load(&state);
	ready = true;
	for (;;)
		sys3(SYS_ppoll, 0, 0, 0);
}

static void *works(void *unused)
{
	struct vector state;

	(void)unused;
	v_make(&state, 2);
	v_load(&state);
	ready = true;
	for (;;)
		;
}

/* Ends with a fault, which is no system call. */
static void victim(bool used, void *(*beside)(void *))
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	struct vector state;
	pthread_t other;

	setrlimit(RLIMIT_CORE, &all);
	if (beside) {
		pthread_create(&other, NULL, beside, NULL);
		while (!ready)
			sched_yield();
		usleep(50000);
	}
	v_make(&state, 1);
	v_load(&state);
	if (!used)
		sys0(SYS_getppid);
	asm volatile("sw x0, 0(x0)" ::: "memory");
}

/* The vector states in the core file. */
static int read_core(struct vector *found, int most)
{
	static unsigned char notes[1 << 20];
	int count = 0, file = open(CORE, O_RDONLY);
	Elf64_Ehdr head;
	Elf64_Phdr segment;

	if (pread(file, &head, sizeof(head), 0) != sizeof(head))
		return -1;
	for (int i = 0; i < head.e_phnum; i++) {
		pread(file, &segment, sizeof(segment), head.e_phoff + i * sizeof(segment));
		if (segment.p_type != PT_NOTE || segment.p_filesz > sizeof(notes))
			continue;
		pread(file, notes, segment.p_filesz, segment.p_offset);
		for (size_t at = 0; at < segment.p_filesz;) {
			Elf64_Nhdr *note = (void *)(notes + at);
			unsigned char *data;

			data = notes + at + sizeof(*note) + (note->n_namesz + 3) / 4 * 4;
			at = data - notes + (note->n_descsz + 3) / 4 * 4;
			if (note->n_type != NT_RISCV_VECTOR || count == most)
				continue;
			memset(&found[count], 0, sizeof(*found));
			memcpy(&found[count], data, FIXED);
			memcpy(found[count].v, data + FIXED, 32 * found[count].vlenb);
			count++;
		}
	}
	close(file);
	unlink(CORE);
	return count;
}

static void check(bool used, void *(*beside)(void *), const char *name)
{
	struct vector found[3], mine, others;
	int count, status;
	pid_t child = fork();
	bool good;

	if (!child)
		victim(used, beside);
	good = waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WCOREDUMP(status);
	count = read_core(found, 3);
	v_make(&mine, 1);
	if (!used)
		v_make_discarded(&mine, 1);
	v_make(&others, 2);
	if (beside == waits)
		v_make_discarded(&others, 3);
	good = good && count == (beside ? 2 : 1) && v_check(&found[0], &mine);
	if (beside)
		good = good && v_check(&found[1], &others);
	ksft_test_result(good, "%s%s\n", used ? "used" : "discarded", name);
}

int main(void)
{
	ksft_print_header();
	ksft_set_plan(6);
	if (chdir("/tmp"))
		ksft_exit_fail_msg("/tmp: errno %d\n", errno);
	for (int used = 0; used < 2; used++) {
		check(used, NULL, "");
		check(used, waits, ", beside a thread that waits in a call");
		check(used, works, ", beside a thread that uses");
	}
	ksft_finished();
}
