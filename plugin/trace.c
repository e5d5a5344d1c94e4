// SPDX-License-Identifier: GPL-2.0-or-later
#include "trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATHS 65536 /* distinct ones in a run; later ones are written as no path */

/* Two cases may have one path, and access other memory: `times` are of the case `of`. */
struct known_path {
	uint64_t hash, count, times, of;
	long *indexes;
};

static FILE *out;
static struct window last;
static uint64_t times, windows;
static uint64_t current_case; /* a hash of its name */
static long insns_written;
static struct known_path *paths;
static long paths_known;

int trace_open(const char *file, const char *target_name, int api_version)
{
	paths = calloc(MAX_PATHS, sizeof(*paths));
	out = fopen(file, "w");
	if (!out || !paths)
		return -1;
	fprintf(out, "kentry-trace 2\nqemu %s api=%d\n", target_name, api_version);
	return 0;
}

static void write_touched(void)
{
	const struct touched *sum = &last.touched;

	if (!last.has_touched) {
		fprintf(out, "-\n");
		return;
	}
	fprintf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, sum->loads, sum->stores,
		sum->bytes_loaded, sum->bytes_stored);
	for (int i = 0; i < LINE_SIZES; i++)
		fprintf(out, ",%" PRIu64, sum->lines[i]);
	fprintf(out, "\n");
}

static void flush_windows(void)
{
	if (!times)
		return;
	fprintf(out,
		"window %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		" %" PRIu64 " ",
		times, last.kernel, last.firmware, last.user, last.irqs, last.exceptions,
		last.iterations);
	if (last.path == NO_PATH)
		fprintf(out, "- ");
	else
		fprintf(out, "%ld ", last.path);
	write_touched();
	times = 0;
}

#define HASH_START 0xcbf29ce484222325u

/* FNV-1a. */
static uint64_t hash_value(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x100000001b3u;
}

void trace_message(const char *text)
{
	static const char before[] = "case ";

	flush_windows();
	if (!strncmp(text, before, strlen(before))) {
		current_case = HASH_START;
		for (const char *c = text + strlen(before); *c && *c != ' '; c++)
			current_case = hash_value(current_case, (uint64_t)*c);
	}
	fprintf(out, "message %s\n", text);
}

void trace_window(const struct window *window)
{
	windows++;
	if (times && memcmp(&last, window, sizeof(last)))
		flush_windows();
	last = *window;
	times++;
}

static void write_insn(struct recorded_insn *insn)
{
	insn->index = insns_written++;
	fprintf(out, "insn %ld %016" PRIx64 " ", insn->index, insn->address);
	for (uint32_t i = 0; i < insn->length; i++)
		fprintf(out, "%02x", insn->bytes[i]);
	fprintf(out, " %s\n", insn->text ? insn->text : "?");
}

static uint64_t hash_path(struct recorded_insn *const *insns, uint64_t count)
{
	uint64_t hash = HASH_START;

	for (uint64_t i = 0; i < count; i++)
		hash = hash_value(hash, (uint64_t)insns[i]->index);
	return hash;
}

static int same_path(const struct known_path *known, struct recorded_insn *const *insns,
		     uint64_t count, uint64_t hash)
{
	if (known->hash != hash || known->count != count)
		return 0;
	for (uint64_t i = 0; i < count; i++)
		if (known->indexes[i] != insns[i]->index)
			return 0;
	return 1;
}

static void write_path(long id, const struct known_path *path)
{
	uint64_t start = 0;

	fprintf(out, "path %ld %" PRIu64, id, path->count);
	for (uint64_t i = 1; i <= path->count; i++) {
		if (i < path->count && path->indexes[i] == path->indexes[i - 1] + 1)
			continue;
		fprintf(out, " %ld+%" PRIu64, path->indexes[start], i - start);
		start = i;
	}
	fprintf(out, "\n");
}

static long add_path(struct recorded_insn *const *insns, uint64_t count, uint64_t hash)
{
	struct known_path *path = &paths[paths_known];

	path->indexes = malloc((count + 1) * sizeof(*path->indexes));
	if (!path->indexes)
		return NO_PATH;
	path->hash = hash;
	path->count = count;
	path->times = 1;
	path->of = current_case;
	for (uint64_t i = 0; i < count; i++)
		path->indexes[i] = insns[i]->index;
	write_path(paths_known, path);
	return paths_known++;
}

long trace_path(struct recorded_insn *const *insns, uint64_t count)
{
	uint64_t hash;

	flush_windows();
	for (uint64_t i = 0; i < count; i++)
		if (insns[i]->index < 0)
			write_insn(insns[i]);
	hash = hash_path(insns, count);
	for (long id = 0; id < paths_known; id++)
		if (same_path(&paths[id], insns, count, hash)) {
			if (paths[id].of != current_case)
				paths[id].times = 0;
			paths[id].of = current_case;
			paths[id].times++;
			return id;
		}
	return paths_known < MAX_PATHS ? add_path(insns, count, hash) : NO_PATH;
}

void trace_accesses(long path, const struct access *accesses, size_t count)
{
	if (paths[path].times != 2)
		return;
	fprintf(out, "accesses %ld", path);
	for (size_t i = 0; i < count; i++)
		fprintf(out, " %" PRIu64 ":%" PRIx64 ":%" PRIu32 ":%c", accesses[i].position,
			accesses[i].address, accesses[i].bytes, accesses[i].is_store ? 's' : 'l');
	fprintf(out, "\n");
}

void trace_close(uint64_t spoilt, int checked, uint64_t mismatches)
{
	flush_windows();
	fprintf(out, "spoilt %" PRIu64 "\n", spoilt);
	if (checked)
		fprintf(out, "check %" PRIu64 " %" PRIu64 "\n", windows, mismatches);
	/* What could not be written shows: there is no end then. */
	if (fflush(out) || ferror(out))
		fprintf(stderr, "kentry plugin: the trace could not be written whole\n");
	else
		fprintf(out, "end %" PRIu64 "\n", windows);
	fclose(out);
}
