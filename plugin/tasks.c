// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tasks plugin: every entry into the kernel of every task, with its number of instructions.
 *
 * Arguments: counts=FILE (accounts.h), functions=FILE (addresses of the kernel's functions, in
 * their order, a line each), hooks=FILE (see take_line()), out=FILE (events.h; without it no event
 * is recorded), firmware=START-END (as for kentry.c).  It counts and records from the runner's
 * first mark to its second.
 *
 * Counting: generated code adds to one counter for each function, user mode and firmware among
 * them, and calls where a block begins and its counter is 0 (on_touch()).  So the counters that
 * are not 0 are known, and whenever something happens that decides whose instructions they are,
 * they are added up and set to 0 (settle()).  One add stands for a run of instructions of which
 * only the last may fault, so no instruction is counted that was not dispatched.
 *
 * Whose: each task has a stack of frames.  The first is an entry from user mode, each other one an
 * interrupt or exception taken in the kernel; return instructions end them.  No frame is user mode.
 *
 * Vector instructions are seen in user code, so what is recorded of them does not depend on what
 * the running kernel lets through or traps.
 *
 * Time: the guest's own clock, whenever kernel or program reads it; between two readings, one
 * nanosecond an instruction, as -icount shift=0 has it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../guest/marks.h"
#include "accounts.h"
#include "api.h"
#include "events.h"
#include "isa.h"
#include "tasks_isa.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_HOOKS 4096
#define TASK_SLOTS 4096
#define MOST_TASKS (1 << 17) /* task_structs: what a kernel that lies may name, in 64 MB */
#define RUNNING 0	     /* TASK_RUNNING, include/linux/sched.h */
#define PF_KTHREAD 0x00200000
#define IDLE 0 /* the idle task's id */
#define NS_A_SECOND 1000000000ull

enum hook_kind {
	HOOK_SWITCH,
	HOOK_FORK,
	HOOK_BORN,
	HOOK_EXEC,
	HOOK_EVENT, /* a number: nothing but that this event happened */
	HOOK_SETTLED,
	HOOK_HANDLER, /* of a system call */
	HOOK_NESTED,  /* the first instruction behind an exception, if taken in the kernel */
	HOOK_FAULT,   /* the same, of a known class: its number */
	HOOK_INTERRUPT,
	HOOK_SYSCALL, /* the first instruction behind a system call */
	HOOK_COMPAT,
	HOOKS,
};

/* As the hooks' file calls them. */
static const char *const hook_names[HOOKS] = { "switch", "fork",      "born",	 "exec",
					       "event",	 "settled",   "handler", "nested",
					       "fault",	 "interrupt", "syscall", "compat" };

struct hook {
	uint64_t address;
	enum hook_kind kind;
	int number;
};

enum field { FIELD_STATE, FIELD_FLAGS, FIELD_PID, FIELD_COMM, FIELDS };
static const char *const field_names[FIELDS] = { "__state", "flags", "pid", "comm" };

static const struct isa *isa;
static const struct tasks_isa *entries;
static void *reg_argument[2], *reg_number, *reg_cause, *reg_streaming, *reg_return, *reg_stack;

static struct hook hooks[MAX_HOOKS];
static int n_hooks;
static long offsets[FIELDS] = { -1, -1, -1, -1 };

/* What counts apart; the kernel's functions are from OF_FUNCTIONS on, in the order of addresses. */
enum { OF_USER, OF_FIRMWARE, OF_NO_SYMBOL, OF_FUNCTIONS };
#define COUNTER_OF(function) (ALL_COUNTERS + (size_t)(function))

static uint64_t *functions;
static uint32_t n_functions;

/* The counters that are not 0, and some that are; by function, when it was last noted here. */
static uint32_t *touched;
static uint32_t n_touched;
static uint64_t *noted;
static uint64_t settled = 1; /* how often, from 1 on */
static uint64_t dispatched;  /* before the counters were last set to 0 */
static uint64_t repeated;    /* iterations of x86's REP instructions but for the first */

static uint64_t firmware_start, firmware_end;
static int recording, tracing;
static const char *counts_file;
static struct accounts_end accounts_end;

static struct task *table[TASK_SLOTS];
static uint32_t n_tasks;
static int known_tasks;
static struct task *current;
static struct task *marker;  /* the runner's, which put the first mark */
static struct task *leaving; /* the one switched from, while it may yet be saved */
static int settles;	     /* whether a hook ends that */
static uint64_t stay;	     /* instructions since the return to user mode */

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
static uint64_t clock_when; /* instructions up to the reading that goes on; 0 for none */
static int clock_compares;  /* nothing slept since the last reading */

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

static uint32_t function_at(uint64_t address)
{
	uint32_t low = 0, high = n_functions;

	if (!(address >> 63))
		return OF_USER;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (functions[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/* Behind the last symbol are modules and other code that was loaded. */
	return low && low < n_functions ? OF_FUNCTIONS + low - 1 : OF_NO_SYMBOL;
}

static uint64_t instructions(void)
{
	uint64_t sum = dispatched;

	for (uint32_t i = 0; i < n_touched; i++)
		sum += api_counter(COUNTER_OF(touched[i]));
	return sum;
}

static struct moment at(uint64_t when)
{
	return (struct moment){ when, clock_ns + (when + repeated - clock_instructions) };
}

static struct moment now(void)
{
	return at(instructions());
}

static void record(int event, int64_t argument)
{
	if (recording && tracing && current)
		events_record(now(), current, event, argument);
}

/* --- tasks ------------------------------------------------------------ */

static uint64_t read_field(uint64_t address, enum field field, size_t length)
{
	uint64_t value = 0;

	api_read_memory(address + (uint64_t)offsets[field], &value, length);
	return value;
}

static void introduce(struct task *task, int64_t parent);

static void read_name(struct task *task)
{
	char name[NAME_LENGTH] = "";

	/* A kernel may run a task that was not born. */
	if (!task->is_introduced) {
		introduce(task, -1);
		return;
	}
	if (!api_read_memory(task->address + (uint64_t)offsets[FIELD_COMM], name, sizeof(name)) ||
	    !strncmp(task->name, name, NAME_LENGTH))
		return;
	memcpy(task->name, name, NAME_LENGTH);
	if (tracing)
		events_name(task);
	if (task->ours)
		task->program = accounts_program(name);
}

static struct task **slot_of(uint64_t address)
{
	/* task_structs are some kilobytes each, aligned to 64 bytes. */
	return &table[(address >> 6 ^ address >> 18) % TASK_SLOTS];
}

static struct task *known_task(uint64_t address)
{
	for (struct task *task = *slot_of(address); task; task = task->next)
		if (task->address == address)
			return task;
	return NULL;
}

/* The memory of one that is gone may be given to another. */
static struct task *add_task(uint64_t address, uint32_t id)
{
	struct task *task = known_task(address), **slot = slot_of(address);

	if (!task) {
		task = known_tasks++ < MOST_TASKS ? calloc(1, sizeof(*task)) : NULL;
		if (!task) {
			fprintf(stderr, "kentry plugin: out of memory, or over %d tasks\n",
				MOST_TASKS);
			exit(1);
		}
		task->next = *slot;
		*slot = task;
	}
	*task = (struct task){ .address = address, .id = id, .next = task->next };
	return task;
}

static void introduce(struct task *task, int64_t parent)
{
	uint64_t flags = read_field(task->address, FIELD_FLAGS, 4);

	task->is_introduced = 1;
	task->is_kernel = !!(flags & PF_KTHREAD);
	if (tracing)
		events_task(task, parent, (int32_t)read_field(task->address, FIELD_PID, 4));
	read_name(task);
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

/* --- frames ----------------------------------------------------------- */

static struct frame *top_frame(void)
{
	return current && current->depth ? &current->frames[current->depth - 1] : NULL;
}

static void charge(const struct frame *frame, uint32_t function, uint64_t count)
{
	uint32_t kind = current->ours ? IS_USER : IS_OTHER;

	if (function == OF_FIRMWARE)
		kind = IS_FIRMWARE;
	else if (frame)
		kind = frame->kind;
	accounts_add(kind, frame && kind == frame->kind ? frame->part : BEFORE, function,
		     current->program, count);
}

/* Adds to the account of what goes on all that was counted since. */
static void settle(void)
{
	struct frame *frame = top_frame();

	for (uint32_t i = 0; i < n_touched; i++) {
		size_t counter = COUNTER_OF(touched[i]);
		uint64_t count = api_counter(counter);

		api_set_counter(counter, 0);
		dispatched += count;
		if (!recording || !current || !count)
			continue;
		charge(frame, touched[i], count);
		if (touched[i] == OF_USER)
			stay += count;
		else if (frame && touched[i] != OF_FIRMWARE)
			frame->instructions += count;
	}
	n_touched = 0;
	settled++;
}

/* The counters are settled. */
static void push_frame(struct task *task, uint32_t kind, uint64_t address)
{
	struct frame *frame;

	if (task->depth == MOST_FRAMES) {
		accounts_end.missed += recording;
		return;
	}
	frame = &task->frames[task->depth++];
	*frame = (struct frame){
		.kind = kind,
		.counts = recording && kind > IS_OTHER,
		.begin = dispatched,
		.address = address,
		.stack = reg_stack ? api_read_register(reg_stack) : 0,
	};
	if (frame->counts)
		accounts_call(kind, task->program);
}

static void pop_frame(struct task *task)
{
	struct frame *frame = &task->frames[--task->depth];

	if (recording && frame->counts)
		accounts_ended(frame->kind, frame->instructions);
}

/* One that runs for the first time does so in the kernel. */
static void begin_task(struct task *task)
{
	uint32_t kind = task->ours ? IS_BIRTH : IS_OTHER;

	if (task->began)
		return;
	task->began = 1;
	if (task->ours) {
		task->program = accounts_program(task->name);
		accounts_task(task->program);
	}
	push_frame(task, task->id == IDLE ? IS_IDLE : task->is_kernel ? IS_KTHREAD : kind, 0);
}

/* --- tasks that come, go and change ----------------------------------- */

static void on_switch(unsigned int vcpu, void *data)
{
	struct task *previous = find_task(api_read_register(reg_argument[0]));
	struct task *next = find_task(api_read_register(reg_argument[1]));
	int blocked = read_field(previous->address, FIELD_STATE, 4) != RUNNING;

	(void)vcpu;
	(void)data;
	settle();
	current = previous;
	clock_compares &= previous->id != IDLE && next->id != IDLE;
	begin_task(previous);
	read_name(previous);
	record(blocked ? EVENT_SWITCH_BLOCKED : EVENT_SWITCH_PREEMPTED, next->id);
	if (previous->depth && previous->frames[0].counts) {
		struct kind *kind = accounts_of(previous->frames[0].kind);

		*(blocked ? &kind->blocked : &kind->preempted) += 1;
	}
	while (previous->dying && blocked && previous->depth)
		pop_frame(previous);
	current = next;
	begin_task(next);
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
	struct task *child;

	(void)vcpu;
	(void)data;
	child = add_task(address, ++n_tasks);
	child->ours = current && (current->ours || (recording && current == marker));
	record(EVENT_FORK, child->id);
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
	/* The runner has become the program. */
	if (recording && current && current == marker)
		current->ours = 1;
	if (current)
		current->renamed = 1;
	record(EVENT_EXEC, 0);
}

static void on_event(unsigned int vcpu, void *data)
{
	int event = (int)(uintptr_t)data;

	(void)vcpu;
	if (event == EVENT_DIE && current)
		current->dying = 1;
	if (leaving && recording && tracing &&
	    (event == EVENT_SEEN_SAVE || event == EVENT_SEEN_SMALL_SAVE))
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
		switch (hook->kind) {
		case HOOK_SYSCALL:
			return (struct entry){ ENTRY_SYSCALL, 0, IS_SYSCALL };
		case HOOK_COMPAT:
			return (struct entry){ ENTRY_SYSCALL, 0, IS_COMPAT };
		case HOOK_FAULT:
			return (struct entry){ ENTRY_FAULT, hook->number, IS_FAULT };
		case HOOK_INTERRUPT:
			return (struct entry){ ENTRY_INTERRUPT, hook->number, IS_INTERRUPT };
		default:
			break;
		}
	return (struct entry){ ENTRY_FAULT, -1, IS_FAULT };
}

/* What COUNT_VECTOR has belongs to the mode in which it was counted. */
static void settle_uses(void)
{
	*(streaming ? &streaming_uses : &plain_uses) += api_counter(COUNT_VECTOR);
	api_set_counter(COUNT_VECTOR, 0);
}

static void record_use(uint64_t uses, int event, uint64_t when)
{
	if (uses && recording && tracing && current)
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

/* The kernel is entered from user mode: nothing of the block was counted yet. */
static void enter(uint64_t address)
{
	struct entry entry = entry_at(address);
	int32_t number = entry.class;
	uint32_t kind = IS_OTHER;

	settle();
	if (tracing)
		record_uses();
	if (entry.kind == ENTRY_SYSCALL)
		number = (int32_t)api_read_register(reg_number);
	if (current->ours) {
		kind = accounts_kind(entry.what, number);
		if (recording) {
			accounts_call(IS_USER, current->program);
			accounts_ended(IS_USER, stay);
		}
	}
	stay = 0;
	push_frame(current, kind, address);
	record((int)entry.kind, entry.kind == ENTRY_SYSCALL ? number
				: entry.kind == ENTRY_FAULT ? entries->cause ? number : -1
							    : 0);
}

/*
 * The first instruction behind an exception.  One that came from user mode was noticed as the
 * block began.
 */
static void on_nested(unsigned int vcpu, void *data)
{
	uint64_t address = (uint64_t)(uintptr_t)data;
	const struct frame *frame = top_frame();
	struct entry entry;

	(void)vcpu;
	if (!frame || (frame->address == address && frame->begin == instructions()))
		return;
	settle();
	entry = entry_at(address);
	push_frame(current,
		   accounts_kind(entry.what == IS_INTERRUPT ? IS_KERNEL_INTERRUPT : IS_KERNEL_FAULT,
				 entry.class),
		   address);
}

static void return_to_user(void)
{
	record(EVENT_EXIT, current->depth ? (int64_t)current->frames[0].instructions : 0);
	while (current->depth)
		pop_frame(current);
	if (current->renamed)
		read_name(current);
	current->renamed = 0;
	stay = 0;
	if (tracing)
		forget_uses();
}

/* Behind the return instruction. */
static void on_return(unsigned int vcpu, void *data)
{
	const struct frame *frame = top_frame();
	uint64_t stack = reg_stack ? api_read_register(reg_stack) : 0, segment = 0;

	(void)vcpu;
	if (!frame)
		return;
	settle();
	/* iretq: the instruction pointer, CS, whose low bits are the privilege. */
	if ((enum return_kind)(uintptr_t)data == RETURN_BY_STACK &&
	    api_read_memory(stack + 8, &segment, sizeof(segment))) {
		if (segment & 3) {
			return_to_user();
			return;
		}
		/* sync_core() returns to itself.  An error code may have been above the frame. */
		if (stack != frame->stack && stack != frame->stack + 8)
			return;
	} else if (current->depth == 1) {
		return_to_user();
		return;
	}
	if (current->depth > 1)
		pop_frame(current);
}

/* A system call's handler begins; it ends where its caller goes on. */
static void on_handler(unsigned int vcpu, void *data)
{
	struct frame *frame = top_frame();
	uint64_t to = 0;
	struct kind *kind;

	(void)vcpu;
	if (!frame || frame->part != BEFORE || current->depth != 1 || frame->kind < IS_SYSCALL)
		return;
	kind = accounts_of(frame->kind);
	if (kind->what != IS_SYSCALL && kind->what != IS_COMPAT)
		return;
	settle();
	frame->part = HANDLER;
	if (!kind->function)
		kind->function = (uint32_t)(uintptr_t)data;
	if (reg_return)
		to = api_read_register(reg_return);
	else
		api_read_memory(api_read_register(reg_stack), &to, sizeof(to));
	frame->back_to = function_at(to);
}

/*
 * A block of a function whose counter is 0 begins: the counter will not be.  `data` has the
 * function, and the block's place in it.
 */
static void on_touch(unsigned int vcpu, void *data)
{
	uint32_t function = (uint32_t)((uintptr_t)data >> 32);
	uint32_t place = (uint32_t)(uintptr_t)data;
	struct frame *frame = top_frame();

	(void)vcpu;
	if (current && function >= OF_NO_SYMBOL && !frame) {
		enter(function >= OF_FUNCTIONS ? functions[function - OF_FUNCTIONS] + place
					       : ~0ull << 32 | place);
	} else if (frame && function == OF_USER) {
		accounts_end.missed += recording;
		settle();
		return_to_user();
	} else if (frame && frame->part == HANDLER && frame->back_to == function) {
		settle();
		frame->part = AFTER;
	}
	/* A block and its first instruction may both come here. */
	if (noted[function] != settled)
		touched[n_touched++] = function;
	noted[function] = settled;
}

struct repeated_at {
	uintptr_t address;
	uint32_t function;
};

/* One iteration of a REP instruction: the first counts. */
static void on_repeated(unsigned int vcpu, void *data)
{
	static uintptr_t last_address;
	static uint64_t last_count, last_settled;
	const struct repeated_at *at = data;
	size_t counter = COUNTER_OF(at->function);

	(void)vcpu;
	if (last_address == at->address && last_settled == dispatched &&
	    last_count == api_counter(counter)) {
		repeated++;
		return;
	}
	last_address = at->address;
	last_settled = dispatched;
	last_count = api_counter(counter) + 1;
	api_set_counter(counter, last_count);
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

static void end_accounts(int complete)
{
	struct moment end = now();

	if (!recording)
		return;
	settle();
	recording = 0;
	accounts_end.instructions[1] = end.instructions;
	accounts_end.ns[1] = end.ns;
	accounts_end.complete = complete;
	if (accounts_write(&accounts_end))
		fprintf(stderr, "kentry plugin: the counts could not be written\n");
}

static void on_mark(unsigned int vcpu, void *data)
{
	(void)vcpu;
	if ((uintptr_t)data == MARK_TRACE_BEGIN && current && !marker) {
		struct moment begin = now();

		settle();
		recording = 1;
		marker = current;
		stay = 0;
		accounts_end.instructions[0] = begin.instructions;
		accounts_end.ns[0] = begin.ns;
		if (tracing)
			events_begin(begin);
	} else if ((uintptr_t)data == MARK_TRACE_END) {
		end_accounts(1);
	}
}

/* --- the clock -------------------------------------------------------- */

struct clock_registers {
	void *low, *high;
};

/*
 * Between two readings without sleep the clock and the count go on by the same number, but that an
 * instruction which faults is dispatched again, and that readings lag behind by some instructions.
 */
static void compare_clocks(uint64_t ns, uint64_t when)
{
	static uint64_t last_ns, last_when;

	if (recording && clock_compares) {
		accounts_end.readings++;
		accounts_end.compared += when - last_when;
		accounts_end.ahead += when - last_when - (ns - last_ns);
	}
	/* The idle task may read it and then sleep. */
	clock_compares = recording && current && current->id != IDLE;
	last_ns = ns;
	last_when = when;
}

static void on_clock(unsigned int vcpu, void *data)
{
	const struct clock_registers *from = data;
	uint64_t ticks = api_read_register(from->low);
	uint64_t ns, when = clock_when;

	(void)vcpu;
	/* Here by a jump: nothing was read. */
	if (!when)
		return;
	clock_when = 0;
	if (from->high)
		ticks |= api_read_register(from->high) << 32;
	ns = ticks * ns_a_tick;
	compare_clocks(ns, when);
	/* A clock of coarse ticks lags behind the instructions. */
	if (ns > clock_ns + (when - clock_instructions)) {
		clock_ns = ns;
		clock_instructions = when;
	}
}

static void on_clock_read(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	clock_when = instructions() + repeated;
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

static int instrument_hooks(struct qemu_plugin_insn *insn, uint64_t address, uint32_t function)
{
	static const insn_callback callbacks[] = { on_switch, on_fork,	  on_born,    on_exec,
						   on_event,  on_settled, on_handler, on_nested,
						   on_nested, on_nested };
	const struct hook *hook = hooks_at(address);
	int number = 0;

	for (; hook && hook < hooks + n_hooks && hook->address == address; hook++) {
		uintptr_t data = (uintptr_t)hook->number;

		if (hook->kind > HOOK_INTERRUPT)
			continue;
		if (hook->kind == HOOK_HANDLER)
			data = function;
		else if (hook->kind >= HOOK_NESTED)
			data = address;
		api_call_on_exec_reading(insn, callbacks[hook->kind], (void *)data);
		number++;
	}
	return number;
}

static int instrument_user(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t length)
{
	int mark = isa->mark(bytes, length);
	enum vector_class vector = tracing ? entries->vector(bytes, length) : VECTOR_NONE;

	if (mark >= 0)
		api_call_on_exec(insn, on_mark, (void *)(uintptr_t)mark);
	switch (vector) {
	case VECTOR_NONE:
		break;
	case VECTOR_PLAIN:
		api_call_on_exec_if(insn, on_first_use, COUNT_VECTOR, 0, NULL);
		api_add_on_exec(insn, COUNT_VECTOR, 1);
		break;
	case VECTOR_MODE:
		api_call_on_exec(insn, on_mode_change, NULL);
		/* fall through */
	case VECTOR_SME:
		api_call_on_exec_if(insn, on_first_use_sme, COUNT_SME, 0, NULL);
		api_add_on_exec(insn, COUNT_SME, 1);
		break;
	}
	return mark >= 0 || vector != VECTOR_NONE;
}

/* Neither: firmware, and the kernel before it runs at its own addresses. */
static int is_aside(uint64_t address)
{
	return !(address >> 63) &&
	       (!current || (address >= firmware_start && address < firmware_end));
}

/* Instructions in a row of which only the last may fault: one add, before the first. */
struct run {
	struct qemu_plugin_insn *first;
	uint64_t length;
	uint32_t function;
};

static void end_run(struct run *run)
{
	if (run->length)
		api_add_on_exec(run->first, COUNTER_OF(run->function), run->length);
	run->length = 0;
}

static void *touch_data(uint32_t function, uint64_t address)
{
	uint64_t start = function >= OF_FUNCTIONS ? functions[function - OF_FUNCTIONS] : 0;

	return (void *)(uintptr_t)((uint64_t)function << 32 | (uint32_t)(address - start));
}

static void call_on_repeated(struct qemu_plugin_insn *insn, uint32_t function, uint64_t address)
{
	struct repeated_at *at = calloc(1, sizeof(*at));

	if (!at)
		exit(1);
	*at = (struct repeated_at){ address, function };
	api_call_on_exec(insn, on_repeated, at);
}

/* Returns whether something is called before the instruction. */
static int instrument(struct qemu_plugin_insn *insn, uint64_t address, uint32_t function,
		      const uint8_t *bytes, size_t length)
{
	int number = 0;
	char low[8], high[8];

	if (clock_pending == address) {
		read_clock_before(insn, pending_low, pending_high);
		number++;
	}
	if (entries->reads_clock(bytes, length, low, high)) {
		api_call_on_exec(insn, on_clock_read, NULL);
		number++;
		clock_pending = address + length;
		memcpy(pending_low, low, sizeof(low));
		memcpy(pending_high, high, sizeof(high));
	}
	if (address >> 63)
		number += instrument_hooks(insn, address, function);
	else if (function == OF_USER)
		number += instrument_user(insn, bytes, length);
	return number;
}

static void on_translation(struct qemu_plugin_tb *tb)
{
	size_t count = api_tb_insns(tb);
	uint64_t start = api_insn_address(api_tb_insn(tb, 0));
	uint32_t function = is_aside(start) ? OF_FIRMWARE : function_at(start);
	struct run run = { 0 };

	api_call_on_tb_if(tb, on_touch, COUNTER_OF(function), 0, touch_data(function, start));
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = api_tb_insn(tb, i);
		uint64_t address = api_insn_address(insn);
		uint8_t bytes[INSN_MAX_BYTES];
		size_t length = api_insn_bytes(insn, bytes, sizeof(bytes));
		uint32_t here = function < OF_NO_SYMBOL ? function : function_at(address);
		enum return_kind kind = start >> 63 ? entries->returns(bytes, length) : RETURN_NONE;

		if (here != function || instrument(insn, address, here, bytes, length)) {
			end_run(&run);
			function = here;
			/* What was called may have set the counter to 0. */
			api_call_on_exec_if(insn, on_touch, COUNTER_OF(function), 0,
					    touch_data(function, address));
		}
		if (isa->is_repeated(bytes, length)) {
			end_run(&run);
			call_on_repeated(insn, function, address);
			continue;
		}
		if (!run.length)
			run = (struct run){ insn, 0, function };
		run.length++;
		if (!entries->is_sure(bytes, length))
			end_run(&run);
		if (kind != RETURN_NONE)
			api_call_on_exec_reading(insn, on_return, (void *)(uintptr_t)kind);
	}
	end_run(&run);
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
	reg_return = entries->return_address ? api_find_register(entries->return_address) : NULL;
	reg_stack = entries->stack ? api_find_register(entries->stack) : NULL;
	if (!reg_argument[0] || !reg_argument[1] || !reg_number || (entries->cause && !reg_cause) ||
	    (!reg_return && !reg_stack)) {
		fprintf(stderr, "kentry plugin: this QEMU does not show the registers needed\n");
		exit(1);
	}
}

static void on_exit_of_qemu(void)
{
	end_accounts(0);
	if (tracing)
		events_close(now());
}

/* --- arguments -------------------------------------------------------- */

static int add_hook(enum hook_kind kind, uint64_t address, int number)
{
	if (n_hooks == MAX_HOOKS)
		return -1;
	hooks[n_hooks++] = (struct hook){ address, kind, number };
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

/* "offset FIELD BYTES" of struct task_struct, or "KIND ADDRESS NUMBER" (hook_names). */
static int take_line(const char *line)
{
	char word[32];
	uint64_t address;
	long bytes;
	int number;

	if (sscanf(line, "offset %31s %ld", word, &bytes) == 2)
		return take_offset(word, bytes);
	if (sscanf(line, "%31s %" SCNx64 " %d", word, &address, &number) != 3)
		return -1;
	for (int i = 0; i < HOOKS; i++)
		if (!strcmp(word, hook_names[i]))
			return add_hook((enum hook_kind)i, address, number);
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

static int read_functions(const char *file)
{
	FILE *in = fopen(file, "r");
	uint32_t room = 0;
	uint64_t address;

	if (!in) {
		fprintf(stderr, "kentry plugin: cannot read functions=%s\n", file);
		return -1;
	}
	while (fscanf(in, "%" SCNx64, &address) == 1) {
		if (n_functions == room) {
			room = room ? room * 2 : 1 << 16;
			functions = realloc(functions, room * sizeof(*functions));
			if (!functions)
				return -1;
		}
		functions[n_functions++] = address;
	}
	fclose(in);
	return 0;
}

static int take_argument(const char *argument, const char **out)
{
	if (!strncmp(argument, "out=", 4)) {
		*out = argument + 4;
		return 0;
	}
	if (!strncmp(argument, "counts=", 7)) {
		counts_file = argument + 7;
		return 0;
	}
	if (!strncmp(argument, "hooks=", 6))
		return read_hooks(argument + 6);
	if (!strncmp(argument, "functions=", 10))
		return read_functions(argument + 10);
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
	if (!counts_file || accounts_open(counts_file)) {
		fprintf(stderr, "kentry plugin: cannot write counts=%s: %s\n",
			counts_file ? counts_file : "", strerror(counts_file ? errno : ENOENT));
		return -1;
	}
	if (out && events_open(out)) {
		fprintf(stderr, "kentry plugin: cannot write out=%s\n", out);
		return -1;
	}
	tracing = out != NULL;
	touched = calloc((size_t)n_functions + OF_FUNCTIONS, sizeof(*touched));
	noted = calloc((size_t)n_functions + OF_FUNCTIONS, sizeof(*noted));
	return touched && noted && !accounts_init(n_functions + OF_FUNCTIONS) ? 0 : -1;
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
	if (check_arguments(out) || api_install(id, info, n_functions + OF_FUNCTIONS) ||
	    api_install_reading(on_vcpu))
		return -1;
	api_start(on_translation, on_exit_of_qemu);
	return 0;
}
