/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A machine for the plugins that a fuzzer drives: QEMU's side of plugin/api.h.
 *
 * The input's bytes are read as they are needed; where there are no more, each is 0.  They say
 * which blocks of instructions there are, in which order they run, which one faults, and what registers
 * and memory hold.  A plugin sees what QEMU would show it of that.
 */
#ifndef KENTRY_MACHINE_H
#define KENTRY_MACHINE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../plugin/api.h"
#include "../../plugin/isa.h"

#define MOST_BLOCKS 16
#define MOST_INSNS 8
#define MOST_CALLS 16
#define MOST_COUNTERS 64
#define MOST_KEPT 65536
#define FIRMWARE_START 0x1000u
#define FIRMWARE_END 0x2000u

/* What a plugin asked for at an instruction, or at the beginning of a block. */
struct request {
	insn_callback callback;
	access_callback on_access;
	void *data;
	size_t counter;
	uint64_t value;
	enum { CALL, CALL_IF, ADD, ON_ACCESS } what;
};

struct qemu_plugin_insn {
	uint64_t address;
	uint8_t bytes[INSN_MAX_BYTES];
	size_t length;
	struct request requests[MOST_CALLS];
	int n_requests;
};

struct qemu_plugin_tb {
	struct qemu_plugin_insn insns[MOST_INSNS];
	size_t count;
	struct request request; /* of the block; without callback there is none */
	bool translated;
};

static const uint8_t *input, *input_end;
static uint64_t counters[MOST_COUNTERS];
static long inputs;
static struct qemu_plugin_tb blocks[MOST_BLOCKS];
static tb_callback translate;
static void (*at_exit)(void), (*when_restarted)(void);
static int blocks_to_restart;

/*
 * The name, which ends so, of a file that a plugin writes, in the folder KENTRY_FUZZ_FOLDER: the same
 * for each input, or, with KENTRY_FUZZ_KEEP, another one.
 */
static const char *file_name(char *room, size_t size, const char *end)
{
	const char *folder = getenv("KENTRY_FUZZ_FOLDER");

	assert(folder);
	snprintf(room, size, "%s/%ld.%s", folder, getenv("KENTRY_FUZZ_KEEP") ? inputs : 0, end);
	return room;
}

static uint8_t next_byte(void)
{
	return input < input_end ? *input++ : 0;
}

static uint64_t next_word(void)
{
	uint64_t word = 0;

	for (int i = 0; i < 8; i++)
		word = word << 8 | next_byte();
	return word;
}

/* --- plugin/api.h ------------------------------------------------------- */

int api_install(plugin_id id, const qemu_info *info, size_t more)
{
	(void)id;
	(void)info;
	assert(ALL_COUNTERS + more <= MOST_COUNTERS);
	return 0;
}

int api_version(void)
{
	return 4;
}

void api_start(tb_callback on_tb, void (*on_exit)(void))
{
	translate = on_tb;
	at_exit = on_exit;
}

void api_restart(void (*after)(void))
{
	when_restarted = after;
	blocks_to_restart = next_byte() % 3;
}

size_t api_tb_insns(const struct qemu_plugin_tb *tb)
{
	return tb->count;
}

struct qemu_plugin_insn *api_tb_insn(const struct qemu_plugin_tb *tb, size_t index)
{
	assert(index < tb->count);
	return (struct qemu_plugin_insn *)&tb->insns[index];
}

uint64_t api_insn_address(const struct qemu_plugin_insn *insn)
{
	return insn->address;
}

size_t api_insn_bytes(const struct qemu_plugin_insn *insn, void *to, size_t room)
{
	size_t length = insn->length < room ? insn->length : room;

	memcpy(to, insn->bytes, length);
	return length;
}

/* The plugin asks once for each instruction that it keeps. */
static uint64_t kept[MOST_KEPT];
static size_t n_kept;

/* A disassembler's text may be anything, such as nothing at all. */
char *api_insn_text(const struct qemu_plugin_insn *insn)
{
	assert(n_kept < MOST_KEPT);
	kept[n_kept++] = insn->address;
	return insn->bytes[0] & 1 ? strdup("mov  x0,\tx1") : strdup("");
}

static struct request *request_at(struct qemu_plugin_insn *insn)
{
	assert(insn->n_requests < MOST_CALLS);
	return &insn->requests[insn->n_requests++];
}

void api_call_on_exec(struct qemu_plugin_insn *insn, insn_callback callback, void *data)
{
	*request_at(insn) = (struct request){ .what = CALL, .callback = callback, .data = data };
}

void api_call_on_exec_reading(struct qemu_plugin_insn *insn, insn_callback callback, void *data)
{
	api_call_on_exec(insn, callback, data);
}

void api_call_on_exec_if(struct qemu_plugin_insn *insn, insn_callback callback, size_t counter,
			 uint64_t value, void *data)
{
	*request_at(insn) = (struct request){ .what = CALL_IF,
					      .callback = callback,
					      .counter = counter,
					      .value = value,
					      .data = data };
}

void api_call_on_tb_if(struct qemu_plugin_tb *tb, insn_callback callback, size_t counter,
		       uint64_t value, void *data)
{
	tb->request = (struct request){ .what = CALL_IF,
					.callback = callback,
					.counter = counter,
					.value = value,
					.data = data };
}

void api_add_on_exec(struct qemu_plugin_insn *insn, size_t counter, uint64_t amount)
{
	assert(counter < MOST_COUNTERS);
	*request_at(insn) = (struct request){ .what = ADD, .counter = counter, .value = amount };
}

void api_call_on_access(struct qemu_plugin_insn *insn, access_callback callback, void *data)
{
	*request_at(insn) =
		(struct request){ .what = ON_ACCESS, .on_access = callback, .data = data };
}

size_t api_access_size(access_info info)
{
	return (size_t)1 << (info & 7);
}

bool api_access_is_store(access_info info)
{
	return info & 8;
}

uint64_t api_counter(size_t counter)
{
	assert(counter < MOST_COUNTERS);
	return counters[counter];
}

void api_set_counter(size_t counter, uint64_t value)
{
	assert(counter < MOST_COUNTERS);
	counters[counter] = value;
}

int api_install_reading(void (*on_vcpu)(void))
{
	on_vcpu();
	return 0;
}

void *api_find_register(const char *name)
{
	return (void *)name;
}

/* Few values are likely to be used again. */
uint64_t api_read_register(void *handle)
{
	uint8_t byte = next_byte();

	assert(handle);
	return byte & 0x80 ? next_word() : 0xffff000000000000u + (uint64_t)byte * 64;
}

bool api_read_memory(uint64_t address, void *to, size_t length)
{
	uint8_t byte = next_byte();

	(void)address;
	assert(length <= 64);
	if (byte == 0xff)
		return false;
	memset(to, byte, length);
	if (byte & 1)
		for (size_t i = 0; i < length; i++)
			((uint8_t *)to)[i] = next_byte();
	return true;
}

/* --- running ------------------------------------------------------------ */

static void call(const struct request *request)
{
	switch (request->what) {
	case CALL_IF:
		if (counters[request->counter] != request->value)
			break;
		/* fall through */
	case CALL:
		request->callback(0, request->data);
		break;
	case ADD:
		counters[request->counter] += request->value;
		break;
	case ON_ACCESS:
		break;
	}
}

static void access_memory(const struct qemu_plugin_insn *insn)
{
	uint8_t many = next_byte() % 4;

	for (int at = 0; at < many; at++) {
		access_info info = next_byte();
		uint64_t address = next_byte() & 1 ? next_word() : 0xffff000000000000u + info;

		for (int i = 0; i < insn->n_requests; i++)
			if (insn->requests[i].what == ON_ACCESS)
				insn->requests[i].on_access(0, info, address,
							    insn->requests[i].data);
	}
}

/* Of the harness: whether an instruction may fault, or leaves its block; and that it ran. */
static bool may_fault(const struct qemu_plugin_insn *insn);
static bool leaves_block(const struct qemu_plugin_insn *insn);
static void executed(const struct qemu_plugin_insn *insn);

static void run_block(struct qemu_plugin_tb *block)
{
	uint8_t faults = next_byte();

	if (!block->count)
		return;
	if (!block->translated) {
		for (size_t i = 0; i < block->count; i++)
			block->insns[i].n_requests = 0;
		block->request.callback = NULL;
		block->translated = true;
		translate(block);
	}
	if (block->request.callback)
		call(&block->request);
	for (size_t i = 0; i < block->count; i++) {
		const struct qemu_plugin_insn *insn = &block->insns[i];

		for (int at = 0; at < insn->n_requests; at++)
			call(&insn->requests[at]);
		executed(insn);
		access_memory(insn);
		if (faults == i && may_fault(insn))
			break;
	}
}

static void restart_if_due(void)
{
	void (*after)(void) = when_restarted;

	if (!after || blocks_to_restart--)
		return;
	when_restarted = NULL;
	for (int i = 0; i < MOST_BLOCKS; i++)
		blocks[i].translated = false;
	after();
}

/* The bytes of an instruction: those of a list, or whatever comes; returns their number. */
static size_t fill_insn(uint8_t *bytes, const uint8_t (*list)[INSN_MAX_BYTES],
			const uint8_t *lengths, uint8_t known)
{
	uint8_t which = next_byte();
	size_t length = lengths[0];

	if (which < known) {
		memcpy(bytes, list[which], INSN_MAX_BYTES);
		return lengths[which];
	}
	/* x86-64's are of 1 to 15 bytes. */
	if (lengths[0] != 4)
		length = 1 + next_byte() % (INSN_MAX_BYTES - 1);
	for (size_t i = 0; i < length; i++)
		bytes[i] = next_byte();
	return length;
}

static void make_block(struct qemu_plugin_tb *block, const uint8_t (*list)[INSN_MAX_BYTES],
		       const uint8_t *lengths, uint8_t known)
{
	static const uint64_t bases[] = { 0x400000, 0xffff800080000000u, FIRMWARE_START,
					  0xffffffff81000000u };
	uint8_t shape = next_byte();
	uint64_t address = bases[shape & 3] + (uint64_t)next_byte() * 4;

	memset(block, 0, sizeof(*block));
	block->count = 1 + (shape >> 2) % MOST_INSNS;
	for (size_t i = 0; i < block->count; i++) {
		struct qemu_plugin_insn *insn = &block->insns[i];

		insn->address = address;
		insn->length = fill_insn(insn->bytes, list, lengths, known);
		address += insn->length;
		if (leaves_block(insn))
			block->count = i + 1;
	}
}

static void run_machine(const uint8_t (*list)[INSN_MAX_BYTES], const uint8_t *lengths,
			uint8_t known)
{
	inputs++;
	memset(counters, 0, sizeof(counters));
	memset(blocks, 0, sizeof(blocks));
	when_restarted = NULL;
	while (input < input_end) {
		uint8_t what = next_byte();
		struct qemu_plugin_tb *block = &blocks[what >> 2 & (MOST_BLOCKS - 1)];

		if ((what & 3) == 0)
			make_block(block, list, lengths, known);
		else
			run_block(block);
		restart_if_due();
	}
	at_exit();
}

#endif
