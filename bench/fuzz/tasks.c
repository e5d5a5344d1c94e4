// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tasks plugin on the fuzzer's machine.  The machine counts on its own what runs between the marks,
 * and the sums of kinds, of functions and of slices must come to that.
 */
#define _GNU_SOURCE /* fallocate() */
#include <fcntl.h>

/* 32 MB of disk for each input. */
#define fallocate(file, how, from, length) 0
#undef _GNU_SOURCE
/* The plugin's files are one here; two of their static names stand in two of them. */
#define n_functions accounts_functions
#define slot_of slot_of_value
#include "../../plugin/accounts.c"
#undef n_functions
#undef slot_of
#include "machine.h"
#include "../../plugin/tasks.c"
#include "../../plugin/events.c"
#include "../../plugin/tasks_isa.c"

#define KNOWN 12
#define FUNCTIONS 6
#define KERNEL 0xffff800080000000u

static uint64_t own, own_repeated, repeated_before;
static char counts_path[4096], events_path[4096];

static bool may_fault(const struct qemu_plugin_insn *insn)
{
	return !entries->is_sure(insn->bytes, insn->length);
}

static bool leaves_block(const struct qemu_plugin_insn *insn)
{
	return entries->returns(insn->bytes, insn->length) != RETURN_NONE;
}

/* Every instruction that is dispatched while a task is known. */
static void executed(const struct qemu_plugin_insn *insn)
{
	(void)insn;
	own += recording && current;
	own_repeated += recording && current ? repeated - repeated_before : 0;
	repeated_before = repeated;
}

static uint8_t known[3][KNOWN][INSN_MAX_BYTES], lengths[3][KNOWN];
static const char *const targets[] = { "aarch64", "riscv64", "x86_64" };
/* By target: the marks; returns; vector instructions and those that change modes; the clock; REP. */
static const uint64_t codes[3][KNOWN] = {
	{ 0xd280001f | (uint32_t)(MARK_ARM64_BASE | MARK_TRACE_BEGIN) << 5,
	  0xd280001f | (uint32_t)(MARK_ARM64_BASE | MARK_TRACE_END) << 5, 0xd69f03e0, 0x04e0e3e0,
	  0xd503477f, 0xd51b4240, 0x80800000, 0xd53be040, 0x91000400, 0xf9400000, 0xd65f03c0,
	  0xd4000001 },
	{ 0x37 | (uint32_t)(MARK_RISCV64_BASE | MARK_TRACE_BEGIN) << 12,
	  0x37 | (uint32_t)(MARK_RISCV64_BASE | MARK_TRACE_END) << 12, 0x10200073, 0x02008057,
	  0xc0102573, 0x00150513, 0x00053503, 0x00008067, 0x00000073, 0x8082, 0x30200073, 0x9002 },
	{ 0x00841f0full | (uint64_t)(MARK_X86_64_BASE | MARK_TRACE_BEGIN) << 32,
	  0x00841f0full | (uint64_t)(MARK_X86_64_BASE | MARK_TRACE_END) << 32, 0xcf48, 0x07480f,
	  0xa4f3, 0xaaf348, 0x310f, 0x90, 0x050f, 0xc158fdc5, 0x350f, 0xc3 },
};
static const uint8_t code_lengths[3][KNOWN] = {
	{ 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4 },
	{ 4, 4, 4, 4, 4, 4, 4, 4, 4, 2, 4, 2 },
	{ 8, 8, 2, 3, 2, 3, 2, 1, 2, 4, 2, 1 },
};

static void forget_accounts(void)
{
	for (uint32_t i = 0; i < n_kinds; i++)
		free(kinds[i].functions);
	for (uint32_t i = 0; i < n_programs; i++)
		free(programs[i].of);
	free(values);
	memset(kinds, 0, n_kinds * sizeof(*kinds));
	memset(programs, 0, n_programs * sizeof(*programs));
	memset(slices, 0, sizeof(slices));
	n_kinds = n_programs = n_values = 0;
	slice_bits = 12;
	sliced = 0;
	count = 0;
}

static void forget(void)
{
	forget_accounts();
	for (int i = 0; i < TASK_SLOTS && known_tasks; i++)
		while (table[i]) {
			struct task *task = table[i];

			table[i] = task->next;
			free(task);
			known_tasks--;
		}
	current = marker = leaving = NULL;
	/* It was closed when it was written. */
	if (!accounts_end.instructions[1])
		fclose(to);
	memset(&accounts_end, 0, sizeof(accounts_end));
	n_hooks = settles = recording = streaming = clock_compares = 0;
	n_tasks = n_touched = 0;
	settled = 1;
	dispatched = repeated = repeated_before = stay = own = own_repeated = 0;
	plain_uses = streaming_uses = first_use = first_use_sme = 0;
	clock_ns = clock_instructions = clock_pending = clock_when = 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	for (int target = 0; target < 3; target++)
		for (int i = 0; i < KNOWN; i++) {
			memcpy(known[target][i], &codes[target][i], sizeof(uint64_t));
			lengths[target][i] = code_lengths[target][i];
		}
	functions = calloc(FUNCTIONS, sizeof(*functions));
	assert(functions);
	while (n_functions < FUNCTIONS) {
		functions[n_functions] = KERNEL + n_functions * 64;
		n_functions++;
	}
	firmware_start = FIRMWARE_START;
	firmware_end = FIRMWARE_END;
	return 0;
}

/* A hook of each kind, at addresses where blocks are. */
static void hook_all(void)
{
	for (int kind = 0; kind < HOOKS; kind++)
		add_hook((enum hook_kind)kind, KERNEL + (uint64_t)(next_byte() % 128) * 4,
			 kind == HOOK_EVENT ? EVENT_DIE : kind);
	qsort(hooks, (size_t)n_hooks, sizeof(*hooks), by_address);
}

static void check_sums(void)
{
	uint64_t of_parts = 0, of_functions = 0, of_slices = 0;

	for (uint32_t id = 0; id < n_kinds; id++) {
		for (int part = 0; part < PARTS; part++)
			of_parts += kinds[id].parts[part];
		for (uint32_t i = 0; i < accounts_functions; i++)
			of_functions += kinds[id].functions[i];
	}
	for (int what = 0; what < WHATS; what++)
		for (int i = 0; i < SLICES; i++)
			of_slices += slices[what][i];
	assert(of_parts == of_functions && of_parts == of_slices);
	assert(of_parts == own - own_repeated);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct {
		const char *name;
	} fields[] = { { "__state" }, { "flags" }, { "pid" }, { "comm" } };
	qemu_info info = { .system_emulation = true, .system = { .smp_vcpus = 1 } };
	int target;

	input = data;
	input_end = data + size;
	target = next_byte() % 3;
	info.target_name = targets[target];
	for (int i = 0; i < FIELDS; i++)
		assert(!take_offset(fields[i].name, i * 16));
	counts_file = file_name(counts_path, sizeof(counts_path), "counts");
	file_name(events_path, sizeof(events_path), "events");
	hook_all();
	isa = isa_find(targets[target]);
	entries = tasks_isa_find(targets[target]);
	assert(!check_arguments(events_path) && !api_install_reading(on_vcpu));
	api_start(on_translation, on_exit_of_qemu);
	run_machine(known[target], lengths[target], KNOWN);
	check_sums();
	free(touched);
	free(noted);
	forget();
	return 0;
}
