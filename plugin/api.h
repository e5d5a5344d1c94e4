/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU's TCG plugin interface, every version of it, behind one face.
 *
 * No Debian package ships qemu-plugin.h, and it changed its ABI three times: counters
 * became scoreboards (version 2, QEMU 9.0), instruction bytes are copied out (version
 * 3, QEMU 9.1), callbacks carry user data (version 7, QEMU 11).  So the functions are
 * declared here, as we use them, and looked up in the running QEMU with dlsym(); one
 * plugin file then loads in QEMU 7.2 to 11.x.
 *
 * Limit: one vCPU.  Version 1's inline adds are not atomic.
 */
#ifndef KENTRY_API_H
#define KENTRY_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

typedef struct {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus, max_vcpus;
		} system;
	};
} qemu_info;

#define MOST_VCPUS 2

/* Counters that generated code adds to, or looks at, without leaving it. */
enum counter {
	COUNT_KERNEL,
	COUNT_FIRMWARE,
	COUNT_USER,
	COUNTERS, /* how many the windows' plugin has; the rest are the events' plugin's own */
	COUNT_VECTOR = COUNTERS,
	COUNT_SME,
	ALL_COUNTERS, /* from here on those of api_install()'s `more` */
};

typedef void (*tb_callback)(struct qemu_plugin_tb *tb);
typedef void (*insn_callback)(unsigned int vcpu, void *data);
typedef uint32_t access_info;
typedef void (*access_callback)(unsigned int vcpu, access_info info, uint64_t address, void *data);

/* 0, or -1 with a line on stderr when this QEMU lacks a function we need. */
int api_install(plugin_id id, const qemu_info *info, size_t more);
int api_version(void);

/*
 * Calls `on_tb` for every block QEMU translates from now on and `on_exit` at the end.
 * api_restart() throws all translated code away first; `after` is called when that has
 * happened, which is some blocks later: until then the old instrumentation is live.
 */
void api_start(tb_callback on_tb, void (*on_exit)(void));
void api_restart(void (*after)(void));

size_t api_tb_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *api_tb_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t api_insn_address(const struct qemu_plugin_insn *insn);
/* Copies the instruction, or what of it fits into `room` bytes; returns how many that are. */
size_t api_insn_bytes(const struct qemu_plugin_insn *insn, void *to, size_t room);
/* malloc()ed by QEMU; the caller frees it. */
char *api_insn_text(const struct qemu_plugin_insn *insn);

void api_call_on_exec(struct qemu_plugin_insn *insn, insn_callback callback, void *data);
void api_add_on_exec(struct qemu_plugin_insn *insn, size_t counter, uint64_t amount);
/* Calls after each of the instruction's loads and stores. */
void api_call_on_access(struct qemu_plugin_insn *insn, access_callback callback, void *data);
/* Of an access: how many bytes it has, and whether it is a store. */
size_t api_access_size(access_info info);
bool api_access_is_store(access_info info);
uint64_t api_counter(size_t counter);

/*
 * What needs version 4 (QEMU 9.2) or later: conditions looked at in generated code,
 * registers and memory.  api_install_reading() is to be called after api_install(): 0, or
 * -1 with a line on stderr.  `on_vcpu` is called when registers can be looked up.
 */
int api_install_reading(void (*on_vcpu)(void));
void api_set_counter(size_t counter, uint64_t value);
/* Calls where the counter has that value as the block begins, or before the instruction. */
void api_call_on_tb_if(struct qemu_plugin_tb *tb, insn_callback callback, size_t counter,
		       uint64_t value, void *data);
void api_call_on_exec_if(struct qemu_plugin_insn *insn, insn_callback callback, size_t counter,
			 uint64_t value, void *data);
/* As api_call_on_exec(), and the callback may read registers. */
void api_call_on_exec_reading(struct qemu_plugin_insn *insn, insn_callback callback, void *data);
/* NULL where the cpu model has no such register. */
void *api_find_register(const char *name);
/* The least significant 64 bits. */
uint64_t api_read_register(void *handle);
/* false where nothing is mapped there; `length` bytes at most 64. */
bool api_read_memory(uint64_t address, void *to, size_t length);

#endif
