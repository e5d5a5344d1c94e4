// SPDX-License-Identifier: GPL-2.0-or-later
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Versions at which the ABI of something we call changed. */
#define API_SCOREBOARDS 2
#define API_COPIED_BYTES 3
#define API_MEMORY 4
#define API_USERDATA 7

/* QEMU's own enums, as far as we use them. */
#define NO_REGISTERS 0	 /* QEMU_PLUGIN_CB_NO_REGS */
#define READ_REGISTERS 1 /* QEMU_PLUGIN_CB_R_REGS */
#define ADD_U64 0	 /* QEMU_PLUGIN_INLINE_ADD_U64 */
#define IF_EQUAL 2	 /* QEMU_PLUGIN_COND_EQ */
#define ALL_ACCESSES 3	 /* QEMU_PLUGIN_MEM_RW */

/* Passed by value: struct qemu_plugin_u64. */
typedef struct {
	void *scoreboard;
	size_t offset;
} scoreboard_u64;

/* QEMU reads this after dlopen(), so the constructor below may still set it. */
EXPORT int qemu_plugin_version = 1;

static plugin_id own_id;
static int version;
static tb_callback translate;
static void (*finish)(void);
static void (*restarted)(void);

/* Version 1 adds to memory of ours, later versions to a scoreboard. */
static uint64_t counters[COUNTERS];
static void *scoreboard;
static uint64_t *scores; /* vCPU 0's place in it; it does not move while there is one vCPU */

static size_t (*tb_n_insns)(const struct qemu_plugin_tb *);
static struct qemu_plugin_insn *(*tb_get_insn)(const struct qemu_plugin_tb *, size_t);
static uint64_t (*insn_vaddr)(const struct qemu_plugin_insn *);
static size_t (*insn_size)(const struct qemu_plugin_insn *);
static char *(*insn_disas)(const struct qemu_plugin_insn *);
static void *insn_data; /* two signatures */
static void (*exec_cb)(struct qemu_plugin_insn *, insn_callback, int, void *);
static void (*exec_inline)(struct qemu_plugin_insn *, int, void *, uint64_t);
static void (*exec_inline_per_vcpu)(struct qemu_plugin_insn *, int, scoreboard_u64, uint64_t);
static void (*access_cb)(struct qemu_plugin_insn *, access_callback, int, int, void *);
static unsigned int (*access_size_shift)(access_info);
static bool (*access_is_store)(access_info);
static void *(*scoreboard_new)(size_t);
static void *(*scoreboard_find)(void *, unsigned int);
/* The user data of version 7; a harmless spare argument before it. */
static void (*register_tb_trans)(plugin_id, void *, void *);
static void (*register_atexit)(plugin_id, void *, void *);
static void (*reset)(plugin_id, void *, void *);

static void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/*
 * The loader refuses a plugin whose version it does not know, in either direction, so
 * say the newest that this QEMU's own functions prove it to have.
 */
__attribute__((constructor)) static void choose_version(void)
{
	if (find("qemu_plugin_set_pc"))
		qemu_plugin_version = API_USERDATA;
	else if (find("qemu_plugin_mem_get_value"))
		qemu_plugin_version = API_MEMORY;
	else if (find("qemu_plugin_register_vcpu_insn_exec_cond_cb"))
		qemu_plugin_version = API_COPIED_BYTES;
	else if (find("qemu_plugin_scoreboard_new"))
		qemu_plugin_version = API_SCOREBOARDS;
}

static int need(void *function_pointer, const char *name)
{
	void *address = find(name);

	memcpy(function_pointer, &address, sizeof(address));
	if (!address)
		fprintf(stderr, "kentry plugin: this QEMU has no %s\n", name);
	return address ? 0 : -1;
}

static int find_counters(size_t number)
{
	size_t bytes = 1;

	if (version < API_SCOREBOARDS)
		return need(&exec_inline, "qemu_plugin_register_vcpu_insn_exec_inline");
	if (need(&exec_inline_per_vcpu, "qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu") ||
	    need(&scoreboard_new, "qemu_plugin_scoreboard_new") ||
	    need(&scoreboard_find, "qemu_plugin_scoreboard_find"))
		return -1;
	/* Generated code multiplies by the size: a shift where it is a power of two. */
	while (bytes < number * sizeof(uint64_t))
		bytes *= 2;
	scoreboard = scoreboard_new(bytes);
	return 0;
}

int api_install(plugin_id id, const qemu_info *info, size_t more)
{
	if (info->system_emulation && info->system.smp_vcpus > 1 &&
	    qemu_plugin_version >= API_SCOREBOARDS) {
		fprintf(stderr,
			"kentry plugin: it counts two vCPUs under a QEMU older than 9.0 only\n");
		return -1;
	}
	own_id = id;
	version = qemu_plugin_version;
	if (need(&tb_n_insns, "qemu_plugin_tb_n_insns") ||
	    need(&tb_get_insn, "qemu_plugin_tb_get_insn") ||
	    need(&insn_vaddr, "qemu_plugin_insn_vaddr") ||
	    need(&insn_size, "qemu_plugin_insn_size") ||
	    need(&insn_disas, "qemu_plugin_insn_disas") ||
	    need(&insn_data, "qemu_plugin_insn_data") ||
	    need(&exec_cb, "qemu_plugin_register_vcpu_insn_exec_cb") ||
	    need(&access_cb, "qemu_plugin_register_vcpu_mem_cb") ||
	    need(&access_size_shift, "qemu_plugin_mem_size_shift") ||
	    need(&access_is_store, "qemu_plugin_mem_is_store") ||
	    need(&register_tb_trans, "qemu_plugin_register_vcpu_tb_trans_cb") ||
	    need(&register_atexit, "qemu_plugin_register_atexit_cb") ||
	    need(&reset, "qemu_plugin_reset"))
		return -1;
	return find_counters(ALL_COUNTERS + more);
}

int api_version(void)
{
	return version;
}

static void on_tb_with_id(plugin_id id, struct qemu_plugin_tb *tb)
{
	(void)id;
	translate(tb);
}

static void on_tb_with_data(struct qemu_plugin_tb *tb, void *data)
{
	(void)data;
	translate(tb);
}

/* Called with an id or with user data: needs neither. */
static void on_exit_any(void)
{
	finish();
}

static void on_reset_any(void)
{
	restarted();
}

void api_start(tb_callback on_tb, void (*on_exit)(void))
{
	translate = on_tb;
	finish = on_exit;
	register_tb_trans(own_id,
			  version >= API_USERDATA ? (void *)on_tb_with_data : (void *)on_tb_with_id,
			  NULL);
	register_atexit(own_id, (void *)on_exit_any, NULL);
}

void api_restart(void (*after)(void))
{
	restarted = after;
	reset(own_id, (void *)on_reset_any, NULL);
}

size_t api_tb_insns(const struct qemu_plugin_tb *tb)
{
	return tb_n_insns(tb);
}

struct qemu_plugin_insn *api_tb_insn(const struct qemu_plugin_tb *tb, size_t index)
{
	return tb_get_insn(tb, index);
}

uint64_t api_insn_address(const struct qemu_plugin_insn *insn)
{
	return insn_vaddr(insn);
}

size_t api_insn_bytes(const struct qemu_plugin_insn *insn, void *to, size_t room)
{
	size_t length = insn_size(insn);

	length = length < room ? length : room;
	if (version >= API_COPIED_BYTES) {
		size_t (*copy)(const struct qemu_plugin_insn *, void *, size_t);

		memcpy(&copy, &insn_data, sizeof(copy));
		copy(insn, to, length);
	} else {
		const void *(*point)(const struct qemu_plugin_insn *);

		memcpy(&point, &insn_data, sizeof(point));
		memcpy(to, point(insn), length);
	}
	return length;
}

char *api_insn_text(const struct qemu_plugin_insn *insn)
{
	return insn_disas(insn);
}

void api_call_on_exec(struct qemu_plugin_insn *insn, insn_callback callback, void *data)
{
	exec_cb(insn, callback, NO_REGISTERS, data);
}

void api_call_on_access(struct qemu_plugin_insn *insn, access_callback callback, void *data)
{
	access_cb(insn, callback, NO_REGISTERS, ALL_ACCESSES, data);
}

size_t api_access_size(access_info info)
{
	return (size_t)1 << access_size_shift(info);
}

bool api_access_is_store(access_info info)
{
	return access_is_store(info);
}

static scoreboard_u64 score_of(size_t counter)
{
	return (scoreboard_u64){ scoreboard, counter * sizeof(uint64_t) };
}

void api_add_on_exec(struct qemu_plugin_insn *insn, size_t counter, uint64_t amount)
{
	if (version >= API_SCOREBOARDS) {
		exec_inline_per_vcpu(insn, ADD_U64, score_of(counter), amount);
	} else {
		exec_inline(insn, ADD_U64, &counters[counter], amount);
	}
}

static uint64_t *place_of(size_t counter)
{
	if (version < API_SCOREBOARDS)
		return &counters[counter];
	/* Not earlier: QEMU asserts that the vCPU exists. */
	if (!scores)
		scores = scoreboard_find(scoreboard, 0);
	return &scores[counter];
}

uint64_t api_counter(size_t counter)
{
	return *place_of(counter);
}

/* --- reading ---------------------------------------------------------- */

/* glib's GArray and GByteArray, as far as they are public. */
typedef struct {
	uint8_t *data;
	unsigned int length;
} glib_array;

/* struct qemu_plugin_reg_descriptor; version 7 has one bool more behind these. */
struct register_entry {
	void *handle;
	const char *name;
	const char *feature;
};

static void (*tb_cond_cb)(struct qemu_plugin_tb *, insn_callback, int, int, scoreboard_u64,
			  uint64_t, void *);
static void (*exec_cond_cb)(struct qemu_plugin_insn *, insn_callback, int, int, scoreboard_u64,
			    uint64_t, void *);
static glib_array *(*get_registers)(void);
static int (*read_register)(void *, glib_array *);
static bool (*read_memory_vaddr)(uint64_t, glib_array *, size_t);
static glib_array *(*byte_array_new)(void);
static glib_array *(*byte_array_set_size)(glib_array *, unsigned int);
static void (*register_vcpu_init)(plugin_id, void *, void *);

static void (*vcpu_begins)(void);
static glib_array *registers, *bytes;

/* Called with an id or a vCPU first: needs neither. */
static void on_vcpu_any(void)
{
	registers = get_registers();
	vcpu_begins();
}

int api_install_reading(void (*on_vcpu)(void))
{
	if (version < API_MEMORY) {
		fprintf(stderr,
			"kentry plugin: this QEMU is too old to read registers: 9.2 or later does\n");
		return -1;
	}
	if (need(&tb_cond_cb, "qemu_plugin_register_vcpu_tb_exec_cond_cb") ||
	    need(&exec_cond_cb, "qemu_plugin_register_vcpu_insn_exec_cond_cb") ||
	    need(&get_registers, "qemu_plugin_get_registers") ||
	    need(&read_register, "qemu_plugin_read_register") ||
	    need(&read_memory_vaddr, "qemu_plugin_read_memory_vaddr") ||
	    need(&byte_array_new, "g_byte_array_new") ||
	    need(&byte_array_set_size, "g_byte_array_set_size") ||
	    need(&register_vcpu_init, "qemu_plugin_register_vcpu_init_cb"))
		return -1;
	vcpu_begins = on_vcpu;
	bytes = byte_array_new();
	register_vcpu_init(own_id, (void *)on_vcpu_any, NULL);
	return 0;
}

void api_set_counter(size_t counter, uint64_t value)
{
	*place_of(counter) = value;
}

void api_call_on_tb_if(struct qemu_plugin_tb *tb, insn_callback callback, size_t counter,
		       uint64_t value, void *data)
{
	tb_cond_cb(tb, callback, READ_REGISTERS, IF_EQUAL, score_of(counter), value, data);
}

void api_call_on_exec_if(struct qemu_plugin_insn *insn, insn_callback callback, size_t counter,
			 uint64_t value, void *data)
{
	exec_cond_cb(insn, callback, READ_REGISTERS, IF_EQUAL, score_of(counter), value, data);
}

void api_call_on_exec_reading(struct qemu_plugin_insn *insn, insn_callback callback, void *data)
{
	exec_cb(insn, callback, READ_REGISTERS, data);
}

void *api_find_register(const char *name)
{
	size_t stride =
		sizeof(struct register_entry) + (version >= API_USERDATA ? sizeof(uint64_t) : 0);

	for (unsigned int i = 0; i < registers->length; i++) {
		const struct register_entry *entry = (void *)(registers->data + i * stride);

		if (!strcmp(entry->name, name))
			return entry->handle;
	}
	return NULL;
}

uint64_t api_read_register(void *handle)
{
	uint64_t value = 0;

	byte_array_set_size(bytes, 0);
	read_register(handle, bytes);
	memcpy(&value, bytes->data, bytes->length < sizeof(value) ? bytes->length : sizeof(value));
	return value;
}

bool api_read_memory(uint64_t address, void *to, size_t length)
{
	byte_array_set_size(bytes, 0);
	if (!read_memory_vaddr(address, bytes, length) || bytes->length < length)
		return false;
	memcpy(to, bytes->data, length);
	return true;
}
