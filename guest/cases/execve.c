/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define AT_EMPTY_PATH 0x1000
#define ADDR_NO_RANDOMIZE 0x0040000

extern const char program[], program_end[];

/* An ELF file whose one page is a mark and exit(0): its size is not this program's. */
static __attribute__((noinline, used)) void make_program(void)
{
	__asm__ volatile(
		".pushsection .rodata\n\t"
		".balign 8\n"
		"program:\n\t"
		".byte 0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0\n\t"
		".2byte 2, " STR(
			ARCH_ELF_MACHINE) "\n\t"
					  ".4byte 1\n\t"
					  ".8byte 0x400078, 64, 0\n\t" /* entry, program header, no sections */
					  ".4byte 0\n\t"
					  ".2byte 64, 56, 1, 0, 0, 0\n\t"
					  ".4byte 1, 5\n\t" /* loaded, readable and executable */
					  ".8byte 0, 0x400000, 0x400000, 4096, 4096, 0x10000\n\t" MARK_ASM(
						  MARK_END) ARCH_EXIT "program_end:\n\t"
								      ".popsection\n\t" ::);
}

static long file;
static char name[] FOR_KERNEL = "kentry", no_path[1] FOR_KERNEL;
static char *arguments[] FOR_KERNEL = { name, 0 };

static long setup(struct work *w)
{
	long size = program_end - program, got;

	(void)w;
	file = SYS(memfd_create, "kentry", 0, 0, 0);
	if (file < 0)
		return file;
	got = SYS(pwrite64, file, program, size, 0);
	/* The page that is mapped ends where the file does. */
	if (got == size)
		got = SYS(pwrite64, file, "", 1, PAGE_BYTES - 1);
	return got < 0 ? got : 0;
}

/* Random addresses would decide how much of which page the kernel fills. */
static void execute(void)
{
	SYS(personality, ADDR_NO_RANDOMIZE, 0, 0, 0);
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	syscall_raw(NR_execveat, file, (long)no_path, (long)arguments, (long)&arguments[1],
		    AT_EMPTY_PATH, 0);
	exit_child(1);
}

/* A child shares this program's memory, as posix_spawn()'s does, and leaves it as it is. */
static void run(struct work *w)
{
	w->first.ret = start_task(SPAWNED, execute);
	w->second.ret = wait_child(w->first.ret);
}

CASE_PART("process", execve, "execve",
	  "execveat of a program of one page by a spawned child, to the program's first instruction",
	  .settles = 1, .want_first = ANY_RESULT, .want_second = 0, .setup = setup, .run = run);
