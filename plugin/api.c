// SPDX-License-Identifier: GPL-2.0-or-later
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Versions at which the ABI of something we call changed. */
#define API_SCOREBOARDS 2
#define API_COPIED_BYTES 3
#define API_USERDATA 7

/* QEMU's own enums, as far as we use them. */
#define NO_REGISTERS 0 /* QEMU_PLUGIN_CB_NO_REGS */
#define ADD_U64 0      /* QEMU_PLUGIN_INLINE_ADD_U64 */

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
		qemu_plugin_version = 4;
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

static int find_counters(void)
{
	if (version < API_SCOREBOARDS)
		return need(&exec_inline, "qemu_plugin_register_vcpu_insn_exec_inline");
	if (need(&exec_inline_per_vcpu, "qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu") ||
	    need(&scoreboard_new, "qemu_plugin_scoreboard_new") ||
	    need(&scoreboard_find, "qemu_plugin_scoreboard_find"))
		return -1;
	scoreboard = scoreboard_new(sizeof(counters));
	return 0;
}

int api_install(plugin_id id, const qemu_info *info)
{
	(void)info;
	own_id = id;
	version = qemu_plugin_version;
	if (need(&tb_n_insns, "qemu_plugin_tb_n_insns") ||
	    need(&tb_get_insn, "qemu_plugin_tb_get_insn") ||
	    need(&insn_vaddr, "qemu_plugin_insn_vaddr") ||
	    need(&insn_size, "qemu_plugin_insn_size") ||
	    need(&insn_disas, "qemu_plugin_insn_disas") ||
	    need(&insn_data, "qemu_plugin_insn_data") ||
	    need(&exec_cb, "qemu_plugin_register_vcpu_insn_exec_cb") ||
	    need(&register_tb_trans, "qemu_plugin_register_vcpu_tb_trans_cb") ||
	    need(&register_atexit, "qemu_plugin_register_atexit_cb") ||
	    need(&reset, "qemu_plugin_reset"))
		return -1;
	return find_counters();
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

void api_add_on_exec(struct qemu_plugin_insn *insn, enum counter counter)
{
	if (version >= API_SCOREBOARDS) {
		scoreboard_u64 entry = { scoreboard, counter * sizeof(uint64_t) };

		exec_inline_per_vcpu(insn, ADD_U64, entry, 1);
	} else {
		exec_inline(insn, ADD_U64, &counters[counter], 1);
	}
}

uint64_t api_counter(enum counter counter)
{
	if (version < API_SCOREBOARDS)
		return counters[counter];
	/* Not earlier: QEMU asserts that the vCPU exists. */
	if (!scores)
		scores = scoreboard_find(scoreboard, 0);
	return scores[counter];
}
