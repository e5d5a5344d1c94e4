// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The floor: a kernel that does nothing but take system calls, booted as Linux is.
 *
 * It finds the probe in the initramfs that any kernel of kentry's gets, and runs it in user mode.
 * What is measured is least.S, or linux.S with FLOOR_LINUX: the calls getpid and getppid.  The
 * calls here are those that the probe needs beside them.
 */
#include "floor.h"
#include "layout.h"
#include "machine.h"
#include "numbers.h"
#include "text.h"

#define ENOENT 2
#define AUXV_END 0
#define MOST_WORDS 64
/* The file of cases, the event of the machine's counter, and what the probe makes of that. */
#define CASES_FD 3
#define EVENT_FD 4

/* --- the initramfs (Documentation/driver-api/early-userspace/buffer-format.rst) --------- */

struct file {
	const char *bytes;
	unsigned long size;
};

static unsigned long hex_field(const char *header, int field)
{
	unsigned long value = 0;

	for (const char *digit = header + 6 + 8 * field; digit < header + 14 + 8 * field; digit++)
		value = value << 4 |
			(unsigned long)(*digit <= '9' ? *digit - '0' : *digit - 'A' + 10);
	return value;
}

static struct file find_file(const struct handed *handed, const char *name)
{
	const char *at = handed->files;

	while (at && at + 110 < handed->files_end && after(at, "070701")) {
		struct file file = { 0, hex_field(at, 6) };

		file.bytes = at + ((110 + hex_field(at, 11) + 3) & ~3ul);
		if (same(at + 110, name))
			return file;
		at = file.bytes + ((file.size + 3) & ~3ul);
	}
	return (struct file){ 0 };
}

/* --- system calls ------------------------------------------------------------------------ */

typedef long call_fn(long, long, long, long, long, long);

static struct file cases;
static unsigned long cases_read;

static void print(const char *text)
{
	while (*text)
		put_byte(*text++);
}

static long sys_write(long fd, long text, long count, long d, long e, long f)
{
	(void)fd, (void)d, (void)e, (void)f;
	for (long i = 0; i < count; i++)
		put_byte(((const char *)text)[i]);
	return count;
}

static long sys_exit(long status, long b, long c, long d, long e, long f)
{
	(void)status, (void)b, (void)c, (void)d, (void)e, (void)f;
	power_off();
}

static long sys_openat(long folder, long path, long c, long d, long e, long f)
{
	(void)folder, (void)c, (void)d, (void)e, (void)f;
	cases_read = 0;
	return same((const char *)path, "/cases") ? CASES_FD : -ENOENT;
}

static long sys_read(long fd, long to, long count, long d, long e, long f)
{
	unsigned long rest = cases.size - cases_read;

	(void)d, (void)e, (void)f;
	if (fd != CASES_FD) {
		/* PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING: perf_event_open(2). */
		((long *)to)[0] = read_counter();
		return 24;
	}
	if (rest > (unsigned long)count)
		rest = (unsigned long)count;
	__builtin_memcpy((char *)to, cases.bytes + cases_read, rest);
	cases_read += rest;
	return (long)rest;
}

static long sys_perf_event_open(long a, long b, long c, long d, long e, long f)
{
	(void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
	start_counter();
	return EVENT_FD;
}

static long sys_dup3(long from, long to, long c, long d, long e, long f)
{
	(void)from, (void)c, (void)d, (void)e, (void)f;
	return to;
}

static long sys_close(long fd, long b, long c, long d, long e, long f)
{
	(void)fd, (void)b, (void)c, (void)d, (void)e, (void)f;
	return 0;
}

static long sys_ni(long a, long b, long c, long d, long e, long f)
{
	(void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
	return ENOSYS_RESULT;
}

#ifdef FLOOR_LINUX
extern call_fn floor_sys_getpid, floor_sys_getppid; /* linux.S */
#else
#define floor_sys_getpid sys_ni
#define floor_sys_getppid sys_ni
#endif

extern call_fn *const floor_calls[CALLS];
call_fn *const floor_calls[CALLS] = {
	[0 ... CALLS - 1] = sys_ni,
	[NR_getpid] = floor_sys_getpid,
	[NR_getppid] = floor_sys_getppid,
	[NR_write] = sys_write,
	[NR_exit] = sys_exit,
	[NR_openat] = sys_openat,
	[NR_read] = sys_read,
	[NR_close] = sys_close,
	[NR_dup3] = sys_dup3,
	[NR_perf_event_open] = sys_perf_event_open,
};

long floor_call(long a, long b, long c, long d, long e, long f, long nr)
{
	return (unsigned long)nr < CALLS ? floor_calls[nr](a, b, c, d, e, f) : ENOSYS_RESULT;
}

void floor_fault(void)
{
	print("Kernel panic - not syncing: the floor takes system calls only\n");
	power_off();
}

/* --- the program ------------------------------------------------------------------------- */

struct elf_header {
	unsigned char ident[16];
	unsigned short type, machine;
	unsigned int version;
	unsigned long entry, segments, sections;
	unsigned int flags;
	unsigned short header_bytes, segment_bytes, segment_count;
};

struct elf_segment {
	unsigned int type, flags;
	unsigned long offset, address, physical, in_file, in_memory;
};

#define LOAD 1

/* Puts a static program where it is linked; its first instruction. */
static unsigned long load(const char *program)
{
	const struct elf_header *header = (const void *)program;

	for (int i = 0; i < header->segment_count; i++) {
		const struct elf_segment *one =
			(const void *)(program + header->segments + i * header->segment_bytes);

		if (one->type != LOAD || one->address + one->in_memory > USER_BYTES)
			continue;
		__builtin_memcpy((char *)one->address, program + one->offset, one->in_file);
		__builtin_memset((char *)one->address + one->in_file, 0,
				 one->in_memory - one->in_file);
	}
	return header->entry;
}

/* The stack that a program begins with: argc, argv with the words behind "--", no more. */
static unsigned long make_stack(const char *words)
{
	long *stack = (long *)(USER_BYTES - 8192);
	char *text = (char *)(USER_BYTES - 4096);
	long count = 1;

	while (*words && !after(words, " -- "))
		words++;
	stack[1] = (long)"init";
	for (words = *words ? words + 4 : words; *words && count < MOST_WORDS; text++) {
		stack[++count] = (long)text;
		while (*words && *words != ' ')
			*text++ = *words++;
		*text = 0;
		words += *words == ' ';
	}
	stack[0] = count;
	stack[count + 1] = 0; /* argv */
	stack[count + 2] = 0; /* environment */
	stack[count + 3] = AUXV_END;
	return (unsigned long)stack;
}

void floor_main(unsigned long boot)
{
	struct handed handed = read_boot(boot);
	struct file init = find_file(&handed, "init");

	if (!init.bytes || !after(init.bytes, "\177ELF"))
		floor_fault();
	cases = find_file(&handed, "cases");
	unsigned long entry = load(init.bytes);
	unsigned long stack = make_stack(handed.words);

	new_code();
	floor_enter_user(entry, stack);
}
