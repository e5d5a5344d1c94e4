/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the plugin must know of an instruction set: its marks, x86's REP, store-exclusives. */
#ifndef KENTRY_ISA_H
#define KENTRY_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INSN_MAX_BYTES 16 /* x86: 15 */

struct isa {
	const char *target_name; /* as QEMU says it */
	/* The mark's number, or -1 where these bytes are no mark. */
	int (*mark)(const uint8_t *bytes, size_t length);
	/* A string instruction that QEMU may dispatch once an iteration. */
	bool (*is_repeated)(const uint8_t *bytes, size_t length);
	/* The instruction of guest/marks.h after which QEMU has no list of ours at hand. */
	bool (*settles)(const uint8_t *bytes, size_t length);
	/* A store-exclusive: QEMU compares memory with what was loaded, which is no load. */
	bool (*stores_alone)(const uint8_t *bytes, size_t length);
};

/* NULL where the target is not one of ours. */
const struct isa *isa_find(const char *target_name);

#endif
