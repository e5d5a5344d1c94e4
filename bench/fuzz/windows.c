// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The windows' plugin on the fuzzer's machine.  The machine counts on its own, and each window must
 * have its numbers.
 */
#include "machine.h"

/* kentry.c's windows come here first. */
#define trace_window checked_window
#include "../../plugin/kentry.c"
#undef trace_window
#include "../../plugin/trace.c"

#define KNOWN 12

static uint64_t own[COUNTERS], own_at_begin[COUNTERS];
static uint64_t last_repeated;

void checked_window(const struct window *window)
{
	const uint64_t counts[COUNTERS] = { window->kernel, window->firmware, window->user };

	for (int i = 0; i < COUNTERS; i++)
		assert(counts[i] == own[i] - own_at_begin[i]);
	assert(!mismatches);
	trace_window(window);
}

static bool may_fault(const struct qemu_plugin_insn *insn)
{
	(void)insn;
	return true;
}

static bool leaves_block(const struct qemu_plugin_insn *insn)
{
	(void)insn;
	return false;
}

/* Counts by itself, without what the plugin knows: an instruction is one, a mark is none. */
static void executed(const struct qemu_plugin_insn *insn)
{
	bool is_repeated, is_kernel = insn->address >> 63;
	bool is_firmware = insn->address >= FIRMWARE_START && insn->address < FIRMWARE_END;
	int mark = is_kernel || is_firmware ? -1 : isa->mark(insn->bytes, insn->length);

	if (mark == MARK_BEGIN)
		memcpy(own_at_begin, own, sizeof(own));
	if (mark >= 0)
		return;
	is_repeated = isa->is_repeated(insn->bytes, insn->length);
	if (!is_repeated || last_repeated != insn->address)
		own[is_kernel ? COUNT_KERNEL : is_firmware ? COUNT_FIRMWARE : COUNT_USER]++;
	/* Another instruction may be at the same address: a kernel patches itself. */
	last_repeated = is_repeated ? insn->address : 0;
}

static const uint8_t marks[] = { MARK_BEGIN, MARK_END,	 MARK_BIT0, MARK_BIT1,
				 MARK_IDLE,  MARK_COUNT, MARK_PATH };
static uint8_t known[3][KNOWN][INSN_MAX_BYTES], lengths[3][KNOWN];
static const char *const targets[] = { "aarch64", "riscv64", "x86_64" };

static void know(int target, int at, uint64_t code, uint8_t length)
{
	memcpy(known[target][at], &code, sizeof(code));
	lengths[target][at] = length;
}

static void know_all(void)
{
	for (int i = 0; i < (int)sizeof(marks); i++) {
		know(0, i, 0xd280001f | (uint32_t)(MARK_ARM64_BASE | marks[i]) << 5, 4);
		know(1, i, 0x37 | (uint32_t)(MARK_RISCV64_BASE | marks[i]) << 12, 4);
		know(2, i, 0x00841f0full | (uint64_t)(MARK_X86_64_BASE | marks[i]) << 32, 8);
	}
	for (int i = sizeof(marks); i < KNOWN; i++) {
		static const uint64_t x86[] = { 0xa4f3, 0xaa48f3, 0xf1f7, 0xaff2, 0x90 };
		static const uint8_t sizes[] = { 2, 3, 2, 2, 1 };

		know(0, i, i % 2 ? SETTLE_ARM64 : 0xc8007c00 + (uint32_t)i, 4);
		know(1, i, i % 2 ? SETTLE_RISCV64 : 0x1800002f + ((uint32_t)i << 7), 4);
		know(2, i, x86[i - sizeof(marks)], sizes[i - sizeof(marks)]);
	}
}

/* What the plugin has from one run to the next: QEMU would load it once. */
static void forget(void)
{
	while (n_kept) {
		uint64_t address = kept[--n_kept];
		struct insn_slot **at = &insn_table[(address ^ address >> 16) % INSN_TABLE];
		struct insn_slot *slot = *at;

		*at = slot->next;
		free(slot->insn.text);
		free(slot);
	}
	for (long i = 0; i < paths_known; i++)
		free(paths[i].indexes);
	free(paths);
	memset(own, 0, sizeof(own));
	memset(called, 0, sizeof(called));
	memset(repeated, 0, sizeof(repeated));
	memset(trapped, 0, sizeof(trapped));
	paths_known = insns_written = 0;
	times = windows = iterations = spoilt = mismatches = message_bits = slide = 0;
	last_rep_pc = last_rep_total = last_repeated = current_case = path_length = 0;
	window_open = n_traps = 0;
	mode = wanted_mode = MARK_IDLE;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	know_all();
	path = malloc(MAX_PATH * sizeof(*path));
	assert(path && !accesses_init());
	checking = 1;
	firmware_start = FIRMWARE_START;
	firmware_end = FIRMWARE_END;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char file[4096];
	int target;

	input = data;
	input_end = data + size;
	target = next_byte() % 3;
	isa = isa_find(targets[target]);
	image_text = 0xffff800080000000u;
	take_trap("irq", image_text + 8);
	take_trap("exception", image_text + 16);
	assert(!trace_open(file_name(file, sizeof(file), "trace"), targets[target], api_version()));
	trace_message("case fuzzed path 1");
	api_start(on_translation, on_exit_of_qemu);
	run_machine(known[target], lengths[target], KNOWN);
	forget();
	return 0;
}
