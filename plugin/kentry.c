// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The plugin: counts every instruction between two marks, and records which they were.
 *
 * Arguments: out=FILE (the trace), firmware=START-END (hexadecimal addresses below the
 * kernel's half that are firmware, none by default), traps=FILE (lines "text ADDRESS",
 * "irq ADDRESS", "exception ADDRESS": where the kernel takes them), check=on (count
 * everything a second time, by a call an instruction, and compare).
 *
 * What is counted: instructions dispatched.  One that faults counts at the fault and
 * again at its retry.  Marks are not counted.  An x86 REP instruction counts once.
 *
 * What the kernel's instructions load and store is recorded with their path.  QEMU reports
 * an access once it is done, so one that faults counts at its retry.
 *
 * Kernel and user are told apart by the program counter's top bit: the kernels measured
 * here never execute user-half addresses, nor user programs kernel-half ones.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../guest/marks.h"
#include "accesses.h"
#include "api.h"
#include "isa.h"
#include "trace.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_TRAPS 512
#define MAX_PATH (1u << 20)   /* instructions of one window; longer ones get no path */
#define INSN_TABLE (1u << 16) /* hash slots of recorded instructions */

enum trap_kind { TRAP_IRQ, TRAP_EXCEPTION, TRAP_KINDS };

struct trap {
	uint64_t address;
	enum trap_kind kind;
};

struct insn_slot {
	struct recorded_insn insn;
	struct insn_slot *next;
};

static const struct isa *isa;
static int mode = MARK_IDLE, wanted_mode = MARK_IDLE;
static int checking;
static uint64_t firmware_start, firmware_end;

static struct trap traps[MAX_TRAPS];
static int n_traps;
static uint64_t image_text, slide;

static uint64_t trapped[TRAP_KINDS];
static uint64_t called[COUNTERS];   /* the self-check's own counters */
static uint64_t repeated[COUNTERS]; /* REP instructions, once each */
static uint64_t iterations;	    /* REP dispatches, all of them */
static uint64_t last_rep_pc, last_rep_total;

static int window_open;
static struct window at_begin;
static uint64_t called_at_begin[COUNTERS];
static uint64_t spoilt, mismatches;

static struct insn_slot *insn_table[INSN_TABLE];
static struct recorded_insn **path;
static uint64_t path_length;

static char message[512];
static size_t message_bits;

/* --- counting --------------------------------------------------------- */

static enum counter class_of(uint64_t address)
{
	if (address >> 63)
		return COUNT_KERNEL;
	if (address >= firmware_start && address < firmware_end)
		return COUNT_FIRMWARE;
	return COUNT_USER;
}

static uint64_t counted(enum counter counter)
{
	return api_counter(counter) + repeated[counter];
}

static void on_called(unsigned int vcpu, void *data)
{
	(void)vcpu;
	called[(uintptr_t)data]++;
}

static void on_trap(unsigned int vcpu, void *data)
{
	(void)vcpu;
	trapped[(uintptr_t)data]++;
}

/* --- paths ------------------------------------------------------------ */

static struct recorded_insn *find_insn(uint64_t address, const uint8_t *bytes, size_t length,
				       const struct qemu_plugin_insn *handle)
{
	struct insn_slot **slot = &insn_table[(address ^ address >> 16) % INSN_TABLE];

	for (; *slot; slot = &(*slot)->next) {
		struct recorded_insn *known = &(*slot)->insn;

		if (known->address == address && known->length == length &&
		    !memcmp(known->bytes, bytes, length))
			return known;
	}
	*slot = calloc(1, sizeof(**slot));
	if (!*slot) {
		fprintf(stderr, "kentry plugin: out of memory\n");
		exit(1);
	}
	(*slot)->insn = (struct recorded_insn){ .address = address,
						.length = (uint32_t)length,
						.index = -1,
						.text = api_insn_text(handle) };
	memcpy((*slot)->insn.bytes, bytes, length);
	return &(*slot)->insn;
}

static void append_to_path(struct recorded_insn *insn)
{
	if (window_open && path_length < MAX_PATH)
		path[path_length] = insn;
	if (window_open)
		path_length++;
}

static void on_path(unsigned int vcpu, void *data)
{
	(void)vcpu;
	append_to_path(data);
}

static void on_access(unsigned int vcpu, access_info info, uint64_t address, void *data)
{
	bool is_store = api_access_is_store(info), stores_alone = data;

	(void)vcpu;
	if (window_open && path_length && (is_store || !stores_alone))
		accesses_add(path_length - 1, address, api_access_size(info), is_store);
}

/*
 * QEMU may dispatch a REP instruction once an iteration.  It is the same dispatch
 * when the same address comes again with nothing else executed since.
 */
static int is_first_iteration(uint64_t address)
{
	uint64_t total =
		api_counter(COUNT_KERNEL) + api_counter(COUNT_FIRMWARE) + api_counter(COUNT_USER);
	int first = address != last_rep_pc || total != last_rep_total;

	last_rep_pc = address;
	last_rep_total = total;
	return first;
}

static void on_repeated(unsigned int vcpu, void *data)
{
	struct recorded_insn *insn = data;

	(void)vcpu;
	iterations++;
	if (!is_first_iteration(insn->address))
		return;
	repeated[class_of(insn->address)]++;
	called[class_of(insn->address)]++;
	if (mode == MARK_PATH && class_of(insn->address) == COUNT_KERNEL)
		append_to_path(insn);
}

/* --- windows ---------------------------------------------------------- */

static struct window now(void)
{
	return (struct window){ .kernel = counted(COUNT_KERNEL),
				.firmware = counted(COUNT_FIRMWARE),
				.user = counted(COUNT_USER),
				.irqs = trapped[TRAP_IRQ],
				.exceptions = trapped[TRAP_EXCEPTION],
				.iterations = iterations -
					      (repeated[COUNT_KERNEL] + repeated[COUNT_FIRMWARE] +
					       repeated[COUNT_USER]),
				.path = NO_PATH };
}

/* A window that has begun and will not be counted, or not to its end. */
static void spoil_window(void)
{
	window_open = 0;
	spoilt++;
}

static void begin_window(void)
{
	if (window_open || mode != wanted_mode)
		spoil_window();
	window_open = mode != MARK_IDLE && mode == wanted_mode;
	if (!window_open)
		return;
	path_length = 0;
	accesses_begin();
	memcpy(called_at_begin, called, sizeof(called));
	at_begin = now();
}

static void check_window(const struct window *window)
{
	const uint64_t counts[COUNTERS] = { window->kernel, window->firmware, window->user };

	for (int i = 0; i < COUNTERS; i++)
		if (called[i] - called_at_begin[i] != counts[i])
			mismatches++;
	if (mode == MARK_PATH && path_length != window->kernel)
		mismatches++;
}

static void record_path(struct window *window)
{
	const struct access *accesses;
	size_t count;

	window->path = trace_path(path, path_length);
	if (window->path == NO_PATH || !accesses_end(&window->touched))
		return;
	window->has_touched = 1;
	accesses = accesses_list(&count);
	trace_accesses(window->path, accesses, count);
}

static void end_window(void)
{
	struct window window = now();

	if (!window_open)
		return;
	window_open = 0;
	window.kernel -= at_begin.kernel;
	window.firmware -= at_begin.firmware;
	window.user -= at_begin.user;
	window.irqs -= at_begin.irqs;
	window.exceptions -= at_begin.exceptions;
	window.iterations -= at_begin.iterations;
	if (checking)
		check_window(&window);
	if (mode == MARK_PATH && path_length <= MAX_PATH)
		record_path(&window);
	trace_window(&window);
}

/* --- the probe's words ------------------------------------------------ */

static void take_message(void)
{
	uint64_t text;

	trace_message(message);
	/*
	 * Where the running kernel lies, against where its symbols say.  It says 0 where
	 * kernel.kptr_restrict hides it: no slide is then the better guess.
	 */
	if (sscanf(message, "text %" SCNx64, &text) == 1 && text && image_text)
		slide = text - image_text;
}

static void take_bit(int bit)
{
	size_t byte = message_bits / 8;

	message[byte] = (char)((unsigned char)message[byte] << 1 | bit);
	if (++message_bits % 8)
		return;
	if (message[byte] != '\n') {
		/* Too long: what comes before the newline is lost, the newline is not. */
		if (byte == sizeof(message) - 1)
			message_bits -= 8;
		return;
	}
	message[byte] = 0;
	take_message();
	message_bits = 0;
}

static void change_mode(int to);

static void on_mark(unsigned int vcpu, void *data)
{
	int mark = (int)(uintptr_t)data;

	(void)vcpu;
	switch (mark) {
	case MARK_BEGIN:
		begin_window();
		break;
	case MARK_END:
		end_window();
		break;
	case MARK_BIT0:
	case MARK_BIT1:
		take_bit(mark == MARK_BIT1);
		break;
	case MARK_IDLE:
	case MARK_COUNT:
	case MARK_PATH:
		change_mode(mark);
		break;
	}
}

/* --- instrumenting ---------------------------------------------------- */

static void instrument_traps(struct qemu_plugin_insn *insn, uint64_t address)
{
	for (int i = 0; i < n_traps; i++)
		if (traps[i].address + slide == address)
			api_call_on_exec(insn, on_trap, (void *)(uintptr_t)traps[i].kind);
}

static void instrument(struct qemu_plugin_insn *insn, uint64_t address, const uint8_t *bytes,
		       size_t length)
{
	enum counter counter = class_of(address);
	int is_repeated = isa->is_repeated(bytes, length);
	int needs_record = is_repeated || (mode == MARK_PATH && counter == COUNT_KERNEL);
	struct recorded_insn *record = needs_record ? find_insn(address, bytes, length, insn)
						    : NULL;

	if (counter == COUNT_KERNEL)
		instrument_traps(insn, address);
	if (mode == MARK_PATH && (counter == COUNT_KERNEL || isa->settles(bytes, length)))
		api_call_on_access(insn, on_access,
				   (void *)(uintptr_t)isa->stores_alone(bytes, length));
	if (is_repeated) {
		api_call_on_exec(insn, on_repeated, record);
		return;
	}
	if (record)
		api_call_on_exec(insn, on_path, record);
	if (checking)
		api_call_on_exec(insn, on_called, (void *)(uintptr_t)counter);
	api_add_on_exec(insn, counter, 1);
}

static void on_translation(struct qemu_plugin_tb *tb)
{
	for (size_t i = 0; i < api_tb_insns(tb); i++) {
		struct qemu_plugin_insn *insn = api_tb_insn(tb, i);
		uint64_t address = api_insn_address(insn);
		uint8_t bytes[INSN_MAX_BYTES];
		size_t length;
		int mark = -1;

		if (mode == MARK_IDLE && class_of(address) != COUNT_USER)
			return;
		length = api_insn_bytes(insn, bytes, sizeof(bytes));
		if (class_of(address) == COUNT_USER)
			mark = isa->mark(bytes, length);
		if (mark >= 0)
			api_call_on_exec(insn, on_mark, (void *)(uintptr_t)mark);
		else if (mode != MARK_IDLE)
			instrument(insn, address, bytes, length);
	}
}

static void on_exit_of_qemu(void)
{
	if (window_open)
		spoil_window();
	trace_close(spoilt, checking, mismatches);
}

static void on_restarted(void)
{
	mode = wanted_mode;
	api_start(on_translation, on_exit_of_qemu);
}

static void change_mode(int to)
{
	if (to == wanted_mode)
		return;
	if (window_open)
		spoil_window();
	wanted_mode = to;
	api_restart(on_restarted);
}

/* --- arguments -------------------------------------------------------- */

static int take_trap(const char *kind, uint64_t address)
{
	if (!strcmp(kind, "text")) {
		image_text = address;
		return 0;
	}
	if (n_traps == MAX_TRAPS || (strcmp(kind, "irq") && strcmp(kind, "exception")))
		return -1;
	traps[n_traps].address = address;
	traps[n_traps++].kind = strcmp(kind, "irq") ? TRAP_EXCEPTION : TRAP_IRQ;
	return 0;
}

static int read_traps(const char *file)
{
	FILE *in = fopen(file, "r");
	char kind[16];
	uint64_t address;
	int got, err = 0;

	if (!in) {
		fprintf(stderr, "kentry plugin: cannot read traps=%s\n", file);
		return -1;
	}
	while (!err && (got = fscanf(in, "%15s %" SCNx64, kind, &address)) != EOF)
		err = got == 2 ? take_trap(kind, address) : -1;
	if (err)
		fprintf(stderr,
			"kentry plugin: traps=%s: a line that is no trap, or over %d of them\n",
			file, MAX_TRAPS);
	fclose(in);
	return err;
}

static int take_argument(const char *argument, const char **out)
{
	if (!strncmp(argument, "out=", 4)) {
		*out = argument + 4;
		return 0;
	}
	if (!strncmp(argument, "traps=", 6))
		return read_traps(argument + 6);
	if (!strcmp(argument, "check=on")) {
		checking = 1;
		return 0;
	}
	if (sscanf(argument, "firmware=%" SCNx64 "-%" SCNx64, &firmware_start, &firmware_end) == 2)
		return 0;
	fprintf(stderr, "kentry plugin: unknown argument %s\n", argument);
	return -1;
}

static int open_trace(const char *out, const qemu_info *info)
{
	if (!out) {
		fprintf(stderr, "kentry plugin: out=FILE is missing\n");
		return -1;
	}
	if (trace_open(out, info->target_name, api_version())) {
		fprintf(stderr, "kentry plugin: cannot write out=%s\n", out);
		return -1;
	}
	return 0;
}

EXPORT int qemu_plugin_install(plugin_id id, const qemu_info *info, int argc, char **argv)
{
	const char *out = NULL;

	for (int i = 0; i < argc; i++)
		if (take_argument(argv[i], &out))
			return -1;
	isa = isa_find(info->target_name);
	if (!isa || !info->system_emulation || info->system.smp_vcpus > MOST_VCPUS) {
		fprintf(stderr,
			"kentry plugin: needs an x86_64, aarch64 or riscv64 machine with one vCPU or two\n");
		return -1;
	}
	path = malloc(MAX_PATH * sizeof(*path));
	if (!path || accesses_init() || api_install(id, info, 0) || open_trace(out, info))
		return -1;
	api_start(on_translation, on_exit_of_qemu);
	return 0;
}
