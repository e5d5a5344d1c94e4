// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tasks plugin: what every task does that a policy about its vector state turns on.
 *
 * Arguments: out=FILE (events.h), hooks=FILE (lines "KIND ADDRESS" and "offset FIELD BYTES",
 * see take_line()), firmware=START-END (as for kentry.c).  It records from the runner's first
 * mark to its second.
 *
 * Kernel and user are told apart by the program counter's top bit, as in kentry.c.  Generated
 * code looks at a word, IN_USER_MODE, at the beginning of every block: a block on the other
 * side than the last one is an entry or a return, whatever instruction led there.  Vector
 * instructions are seen in user code, so what is recorded of them does not depend on what the
 * running kernel lets through or traps.
 *
 * Time: the guest's own clock, whenever kernel or program reads it; between two readings, one
 * nanosecond an instruction, as -icount shift=0 has it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../guest/marks.h"
#include "api.h"
#include "events.h"
#include "isa.h"
#include "tasks_isa.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_HOOKS 4096
#define TASK_SLOTS 4096
#define RUNNING 0 /* TASK_RUNNING, include/linux/sched.h */
#define PF_KTHREAD 0x00200000
#define IDLE 0 /* the idle task's id */
#define NS_A_SECOND 1000000000ull

enum hook_kind {
	HOOK_SWITCH,
	HOOK_FORK,
	HOOK_BORN,
	HOOK_EXEC,
	HOOK_EVENT, /* EVENT + the event's number: nothing but that it happened */
	HOOK_SETTLED,
	HOOK_ENTERED,
	HOOK_INTERRUPTED,
	HOOK_SYSCALL,
	HOOK_INTERRUPT,
};

struct hook {
	uint64_t address;
	enum hook_kind kind;
	int event;
};

enum field { FIELD_STATE, FIELD_FLAGS, FIELD_PID, FIELD_COMM, FIELDS };
static const char *const field_names[FIELDS] = { "__state", "flags", "pid", "comm" };

static const struct isa *isa;
static const struct tasks_isa *entries;
static void *reg_argument[2], *reg_number, *reg_cause, *reg_streaming;

static struct hook hooks[MAX_HOOKS];
static int n_hooks;
static long offsets[FIELDS] = { -1, -1, -1, -1 };

static int just_entered; /* by the block that was noticed, not yet behind the vectors */

static uint64_t firmware_start, firmware_end;
static int recording;

static struct task *table[TASK_SLOTS];
static uint32_t n_tasks;
static struct task *current;
static struct task *leaving; /* the one switched from, while it may yet be saved */
static int settles;	     /* whether a hook ends that */

/*
 * Of the user interval that is going on: COUNT_VECTOR counts the vector instructions since
 * streaming mode was last entered or left, and these those before, apart.  In streaming mode
 * they are SME's.
 */
static uint64_t plain_uses, streaming_uses;
static uint64_t first_use, first_use_sme; /* instructions */
static int streaming;
static uint64_t clock_ns, clock_instructions, ns_a_tick;
static uint64_t clock_pending; /* where the block behind a reading begins */
static char pending_low[8], pending_high[8];

static int by_address(const void *a, const void *b)
{
	const struct hook *one = a, *other = b;

	return (one->address > other->address) - (one->address < other->address);
}

/* The first of those at an address, NULL where there is none. */
static const struct hook *hooks_at(uint64_t address)
{
	struct hook wanted = { .address = address };
	const struct hook *hook =
		bsearch(&wanted, hooks, (size_t)n_hooks, sizeof(*hooks), by_address);

	while (hook && hook > hooks && hook[-1].address == address)
		hook--;
	return hook;
}

static uint64_t instructions(void)
{
	return api_counter(COUNT_ALL);
}

static struct moment at(uint64_t when)
{
	return (struct moment){ when, clock_ns + (when - clock_instructions) };
}

static struct moment now(void)
{
	return at(instructions());
}

static void record(int event, int64_t argument)
{
	if (recording && current)
		events_record(now(), current, event, argument);
}

/* --- tasks ------------------------------------------------------------ */

static uint64_t read_field(uint64_t address, enum field field, size_t length)
{
	uint64_t value = 0;

	api_read_memory(address + (uint64_t)offsets[field], &value, length);
	return value;
}

static void read_name(struct task *task)
{
	char name[NAME_LENGTH] = "";

	if (api_read_memory(task->address + (uint64_t)offsets[FIELD_COMM], name, sizeof(name)))
		events_name(task, name);
}

static struct task **slot_of(uint64_t address)
{
	/* task_structs are some kilobytes each, aligned to 64 bytes. */
	return &table[(address >> 6 ^ address >> 18) % TASK_SLOTS];
}

static struct task *add_task(uint64_t address, uint32_t id)
{
	struct task *task = calloc(1, sizeof(*task)), **slot = slot_of(address);

	if (!task) {
		fprintf(stderr, "kentry plugin: out of memory\n");
		exit(1);
	}
	task->address = address;
	task->id = id;
	task->next = *slot;
	*slot = task;
	return task;
}

static void introduce(struct task *task, int64_t parent)
{
	uint64_t flags = read_field(task->address, FIELD_FLAGS, 4);

	events_task(task, parent, (int32_t)read_field(task->address, FIELD_PID, 4),
		    !!(flags & PF_KTHREAD));
	read_name(task);
}

static struct task *known_task(uint64_t address)
{
	for (struct task *task = *slot_of(address); task; task = task->next)
		if (task->address == address)
			return task;
	return NULL;
}

static struct task *find_task(uint64_t address)
{
	struct task *task = known_task(address);

	if (!task) {
		/* pid 0 is the idle task, which was never forked. */
		task = add_task(address, read_field(address, FIELD_PID, 4) ? ++n_tasks : IDLE);
		introduce(task, -1);
	}
	return task;
}

/* The memory of one that is gone was given to another. */
static void forget_task(uint64_t address)
{
	for (struct task *task = *slot_of(address); task; task = task->next)
		if (task->address == address)
			task->address = 0;
}

static void on_switch(unsigned int vcpu, void *data)
{
	struct task *previous = find_task(api_read_register(reg_argument[0]));
	struct task *next = find_task(api_read_register(reg_argument[1]));
	int blocked = read_field(previous->address, FIELD_STATE, 4) != RUNNING;

	(void)vcpu;
	(void)data;
	current = previous;
	read_name(previous);
	record(blocked ? EVENT_SWITCH_BLOCKED : EVENT_SWITCH_PREEMPTED, next->id);
	current = next;
	if (settles)
		leaving = previous;
}

static void on_settled(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	leaving = NULL;
}

/* The parent's state is saved and copied; the child has no pid yet. */
static void on_fork(unsigned int vcpu, void *data)
{
	uint64_t address = api_read_register(reg_argument[0]);

	(void)vcpu;
	(void)data;
	forget_task(address);
	record(EVENT_FORK, add_task(address, ++n_tasks)->id);
}

static void on_born(unsigned int vcpu, void *data)
{
	struct task *child = known_task(api_read_register(reg_argument[0]));

	(void)vcpu;
	(void)data;
	if (child)
		introduce(child, current ? (int64_t)current->id : -1);
}

static void on_exec(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	record(EVENT_EXEC, 0);
}

static void on_event(unsigned int vcpu, void *data)
{
	int event = (int)(uintptr_t)data;

	(void)vcpu;
	if (leaving && recording && (event == EVENT_SEEN_SAVE || event == EVENT_SEEN_SMALL_SAVE))
		events_record(now(), leaving, event, 0);
	else
		record(event, 0);
}

/* --- entries and returns ---------------------------------------------- */

static struct entry entry_at(uint64_t address)
{
	if (entries->entry)
		return entries->entry(address, api_read_register(reg_cause));
	for (const struct hook *hook = hooks_at(address);
	     hook && hook < hooks + n_hooks && hook->address == address; hook++)
		if (hook->kind == HOOK_SYSCALL)
			return (struct entry){ ENTRY_SYSCALL, 0 };
		else if (hook->kind == HOOK_INTERRUPT)
			return (struct entry){ ENTRY_INTERRUPT, 0 };
	return (struct entry){ ENTRY_FAULT, -1 };
}

/* What COUNT_VECTOR has belongs to the mode in which it was counted. */
static void settle_uses(void)
{
	*(streaming ? &streaming_uses : &plain_uses) += api_counter(COUNT_VECTOR);
	api_set_counter(COUNT_VECTOR, 0);
}

static void record_use(uint64_t uses, int event, uint64_t when)
{
	if (uses && recording && current)
		events_record(at(when), current, event, (int64_t)uses);
}

static void forget_uses(void)
{
	plain_uses = streaming_uses = 0;
	api_set_counter(COUNT_VECTOR, 0);
	api_set_counter(COUNT_SME, 0);
}

static void record_streaming(void)
{
	uint32_t svcr = (uint32_t)api_read_register(reg_streaming) & 3;

	if (svcr == current->svcr)
		return;
	current->svcr = svcr;
	record(EVENT_SVCR, svcr);
}

/* What the task did since it last returned, in the order of the first times. */
static void record_uses(void)
{
	uint64_t sme;

	settle_uses();
	sme = api_counter(COUNT_SME) + streaming_uses;
	if (first_use_sme < first_use)
		record_use(sme, EVENT_USE_SME, first_use_sme);
	record_use(plain_uses, EVENT_USE, first_use);
	if (first_use_sme >= first_use)
		record_use(sme, EVENT_USE_SME, first_use_sme);
	if (current && reg_streaming && (sme || current->svcr))
		record_streaming();
	forget_uses();
}

static void record_entry(struct entry entry)
{
	record((int)entry.kind,
	       entry.kind == ENTRY_SYSCALL ? (int32_t)api_read_register(reg_number) : entry.class);
}

static void on_entry(unsigned int vcpu, void *data)
{
	struct entry entry = entry_at((uint64_t)(uintptr_t)data);

	(void)vcpu;
	api_set_counter(IN_USER_MODE, 0);
	just_entered = 1;
	record_uses();
	record_entry(entry);
}

/*
 * Behind the vectors for user mode.  An interrupt or a page fault may come before the first
 * instruction that the kernel returned to: no block of user code was begun then.
 */
static void take_entered(struct entry entry)
{
	if (!just_entered) {
		record(EVENT_EXIT, 0);
		record_entry(entry);
	}
	just_entered = 0;
}

static void on_entered(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	take_entered(entry_at(0));
}

static void on_interrupted(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	take_entered((struct entry){ ENTRY_INTERRUPT, 0 });
}

static void on_return(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	api_set_counter(IN_USER_MODE, 1);
	forget_uses();
	record(EVENT_EXIT, 0);
}

static void on_first_use(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	streaming = reg_streaming && (api_read_register(reg_streaming) & 1);
	if (streaming && !streaming_uses && !api_counter(COUNT_SME))
		first_use_sme = instructions();
	if (!streaming && !plain_uses)
		first_use = instructions();
}

static void on_first_use_sme(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	if (!streaming_uses)
		first_use_sme = instructions();
}

/* smstart, smstop: the next vector instruction is looked at anew. */
static void on_mode_change(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	settle_uses();
}

/* --- the runner's marks ----------------------------------------------- */

static void on_mark(unsigned int vcpu, void *data)
{
	(void)vcpu;
	if ((uintptr_t)data == MARK_TRACE_BEGIN && !recording) {
		recording = 1;
		events_begin(now());
	} else if ((uintptr_t)data == MARK_TRACE_END) {
		recording = 0;
	}
}

/* --- the clock -------------------------------------------------------- */

struct clock_registers {
	void *low, *high;
};

static void on_clock(unsigned int vcpu, void *data)
{
	const struct clock_registers *from = data;
	uint64_t ticks = api_read_register(from->low);
	uint64_t ns, when = instructions();

	(void)vcpu;
	if (from->high)
		ticks |= api_read_register(from->high) << 32;
	ns = ticks * ns_a_tick;
	/* A clock of coarse ticks lags behind the instructions. */
	if (ns > clock_ns + (when - clock_instructions)) {
		clock_ns = ns;
		clock_instructions = when;
	}
}

static void read_clock_before(struct qemu_plugin_insn *insn, const char *low, const char *high)
{
	struct clock_registers *from = calloc(1, sizeof(*from));

	if (!from)
		return;
	from->low = api_find_register(low);
	from->high = *high ? api_find_register(high) : NULL;
	if (from->low)
		api_call_on_exec_reading(insn, on_clock, from);
}

/* --- instrumenting ---------------------------------------------------- */

static void instrument_hooks(struct qemu_plugin_insn *insn, uint64_t address)
{
	static const insn_callback callbacks[] = {
		on_switch, on_fork,    on_born,	   on_exec,
		on_event,  on_settled, on_entered, on_interrupted
	};
	const struct hook *hook = hooks_at(address);

	for (; hook && hook < hooks + n_hooks && hook->address == address; hook++)
		if (hook->kind <= HOOK_INTERRUPTED)
			api_call_on_exec_reading(insn, callbacks[hook->kind],
						 (void *)(uintptr_t)hook->event);
}

static void instrument_user(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t length)
{
	int mark = isa->mark(bytes, length);

	if (mark >= 0)
		api_call_on_exec(insn, on_mark, (void *)(uintptr_t)mark);
	switch (entries->vector(bytes, length)) {
	case VECTOR_NONE:
		break;
	case VECTOR_PLAIN:
		api_call_on_exec_if(insn, on_first_use, COUNT_VECTOR, 0);
		api_add_on_exec(insn, COUNT_VECTOR);
		break;
	case VECTOR_MODE:
		api_call_on_exec(insn, on_mode_change, NULL);
		/* fall through */
	case VECTOR_SME:
		api_call_on_exec_if(insn, on_first_use_sme, COUNT_SME, 0);
		api_add_on_exec(insn, COUNT_SME);
		break;
	}
}

/* Neither: firmware, and the kernel before it runs at its own addresses. */
static int is_aside(uint64_t address)
{
	return !(address >> 63) &&
	       (!current || (address >= firmware_start && address < firmware_end));
}

static void on_translation(struct qemu_plugin_tb *tb)
{
	size_t count = api_tb_insns(tb);
	uint64_t start = api_insn_address(api_tb_insn(tb, 0));
	int kernel = (int)(start >> 63);

	if (!is_aside(start))
		api_call_on_tb_if(tb, kernel ? on_entry : on_return, IN_USER_MODE, kernel,
				  (void *)(uintptr_t)start);
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = api_tb_insn(tb, i);
		uint64_t address = api_insn_address(insn);
		uint8_t bytes[INSN_MAX_BYTES];
		size_t length = api_insn_bytes(insn, bytes, sizeof(bytes));
		char low[8], high[8];

		if (clock_pending == address)
			read_clock_before(insn, pending_low, pending_high);
		if (entries->reads_clock(bytes, length, low, high)) {
			clock_pending = address + length;
			memcpy(pending_low, low, sizeof(low));
			memcpy(pending_high, high, sizeof(high));
		}
		if (kernel)
			instrument_hooks(insn, address);
		else
			instrument_user(insn, bytes, length);
		api_add_on_exec(insn, COUNT_ALL);
	}
}

static void on_vcpu(void)
{
	void *frequency = entries->clock_frequency ? api_find_register(entries->clock_frequency)
						   : NULL;
	uint64_t hz = frequency ? api_read_register(frequency) : entries->clock_hz;

	ns_a_tick = hz ? NS_A_SECOND / hz : 1;
	for (int i = 0; i < 2; i++)
		reg_argument[i] = api_find_register(entries->arguments[i]);
	reg_number = api_find_register(entries->syscall_number);
	reg_cause = entries->cause ? api_find_register(entries->cause) : NULL;
	reg_streaming = entries->streaming ? api_find_register(entries->streaming) : NULL;
	if (!reg_argument[0] || !reg_argument[1] || !reg_number || (entries->cause && !reg_cause)) {
		fprintf(stderr, "kentry plugin: this QEMU does not show the registers needed\n");
		exit(1);
	}
}

static void on_exit_of_qemu(void)
{
	events_close(now());
}

/* --- arguments -------------------------------------------------------- */

static int add_hook(enum hook_kind kind, uint64_t address, int event)
{
	if (n_hooks == MAX_HOOKS)
		return -1;
	hooks[n_hooks++] = (struct hook){ address, kind, event };
	settles |= kind == HOOK_SETTLED;
	return 0;
}

static int take_offset(const char *name, long bytes)
{
	for (int i = 0; i < FIELDS; i++)
		if (!strcmp(name, field_names[i])) {
			offsets[i] = bytes;
			return 0;
		}
	return -1;
}

/*
 * "offset FIELD BYTES" of struct task_struct, or "KIND ADDRESS": switch, fork, born, exec,
 * settled, entered, interrupted, syscall, interrupt, or the number of an event that has no argument.
 */
static int take_line(const char *line)
{
	static const char *const kinds[] = { "switch",	"fork",	    "born",    "exec",
					     "",	"settled",  "entered", "interrupted",
					     "syscall", "interrupt" };
	char word[32];
	uint64_t address;
	long bytes;
	int event;

	if (sscanf(line, "offset %31s %ld", word, &bytes) == 2)
		return take_offset(word, bytes);
	if (sscanf(line, "%d %" SCNx64, &event, &address) == 2)
		return add_hook(HOOK_EVENT, address, event);
	if (sscanf(line, "%31s %" SCNx64, word, &address) != 2)
		return -1;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(word, kinds[i]))
			return add_hook((enum hook_kind)i, address, 0);
	return -1;
}

static int read_hooks(const char *file)
{
	FILE *in = fopen(file, "r");
	char line[128];
	int err = 0;

	if (!in) {
		fprintf(stderr, "kentry plugin: cannot read hooks=%s\n", file);
		return -1;
	}
	while (!err && fgets(line, sizeof(line), in))
		err = take_line(line);
	fclose(in);
	if (err)
		fprintf(stderr, "kentry plugin: hooks=%s: not understood, or over %d: %s", file,
			MAX_HOOKS, line);
	qsort(hooks, (size_t)n_hooks, sizeof(*hooks), by_address);
	return err;
}

static int take_argument(const char *argument, const char **out)
{
	if (!strncmp(argument, "out=", 4)) {
		*out = argument + 4;
		return 0;
	}
	if (!strncmp(argument, "hooks=", 6))
		return read_hooks(argument + 6);
	if (sscanf(argument, "firmware=%" SCNx64 "-%" SCNx64, &firmware_start, &firmware_end) == 2)
		return 0;
	fprintf(stderr, "kentry plugin: unknown argument %s\n", argument);
	return -1;
}

static int check_arguments(const char *out)
{
	for (int i = 0; i < FIELDS; i++)
		if (offsets[i] < 0) {
			fprintf(stderr, "kentry plugin: no offset of %s\n", field_names[i]);
			return -1;
		}
	if (!out || events_open(out)) {
		fprintf(stderr, "kentry plugin: cannot write out=%s\n", out ? out : "");
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
	entries = tasks_isa_find(info->target_name);
	if (!isa || !entries || !info->system_emulation || info->system.smp_vcpus != 1) {
		fprintf(stderr,
			"kentry plugin: needs an x86_64, aarch64 or riscv64 machine with one vCPU\n");
		return -1;
	}
	if (check_arguments(out) || api_install(id, info) || api_install_reading(on_vcpu))
		return -1;
	api_start(on_translation, on_exit_of_qemu);
	return 0;
}
