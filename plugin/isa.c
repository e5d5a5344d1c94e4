// SPDX-License-Identifier: GPL-2.0-or-later
#include "isa.h"

#include <string.h>

#include "../guest/marks.h"

static uint32_t little_endian(const uint8_t *bytes)
{
	return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* movz xzr, #0xABnn: 0xD2800000 | imm16 << 5 | 31 */
static int mark_arm64(const uint8_t *bytes, size_t length)
{
	uint32_t word;

	if (length != 4)
		return -1;
	word = little_endian(bytes);
	if ((word & 0xffe0001f) != 0xd280001f || (word >> 5 & 0xff00) != MARK_ARM64_BASE)
		return -1;
	return word >> 5 & 0xff;
}

/* lui x0, 0xABCnn: imm20 << 12 | 0x37 */
static int mark_riscv64(const uint8_t *bytes, size_t length)
{
	uint32_t word;

	if (length != 4)
		return -1;
	word = little_endian(bytes);
	if ((word & 0xfff) != 0x37 || (word >> 12 & 0xfff00) != MARK_RISCV64_BASE)
		return -1;
	return word >> 12 & 0xff;
}

/* nopl 0x5AABBCnn(%rax,%rax): 0f 1f 84 00 disp32 */
static int mark_x86_64(const uint8_t *bytes, size_t length)
{
	static const uint8_t nopl[4] = { 0x0f, 0x1f, 0x84, 0x00 };

	if (length != 8 || memcmp(bytes, nopl, sizeof(nopl)))
		return -1;
	if ((little_endian(bytes + 4) & 0xffffff00) != MARK_X86_64_BASE)
		return -1;
	return bytes[4];
}

static bool never(const uint8_t *bytes, size_t length)
{
	(void)bytes;
	(void)length;
	return false;
}

static bool settles_arm64(const uint8_t *bytes, size_t length)
{
	return length == 4 && little_endian(bytes) == SETTLE_ARM64;
}

static bool settles_riscv64(const uint8_t *bytes, size_t length)
{
	return length == 4 && little_endian(bytes) == SETTLE_RISCV64;
}

static bool settles_x86_64(const uint8_t *bytes, size_t length)
{
	return length == 2 && (bytes[0] | bytes[1] << 8) == SETTLE_X86_64;
}

/*
 * stxr and stlxr, and the pairs stxp and stlxp, from which bit 31 tells casp: Arm ARM C4.1,
 * "Load/store exclusive register", "Load/store exclusive pair"
 */
static bool stores_alone_arm64(const uint8_t *bytes, size_t length)
{
	uint32_t word = length == 4 ? little_endian(bytes) : 0;

	return (word & 0x3fe00000) == 0x08000000 || (word & 0xbfe00000) == 0x88200000;
}

/* sc.w, sc.d: major opcode AMO, funct5 00011 */
static bool stores_alone_riscv64(const uint8_t *bytes, size_t length)
{
	return length == 4 && (little_endian(bytes) & 0xf800007f) == 0x1800002f;
}

/* REP or REPNE among the prefixes, then ins outs movs cmps stos lods or scas. */
static bool is_repeated_x86_64(const uint8_t *bytes, size_t length)
{
	bool repeated = false;
	size_t i;

	for (i = 0; i < length; i++) {
		uint8_t byte = bytes[i];

		if (byte == 0xf2 || byte == 0xf3)
			repeated = true;
		else if (byte != 0x66 && byte != 0x67 && (byte & 0xf0) != 0x40 && byte != 0x2e &&
			 byte != 0x36 && byte != 0x3e && byte != 0x26 && byte != 0x64 &&
			 byte != 0x65)
			break;
	}
	if (!repeated || i == length)
		return false;
	return (bytes[i] >= 0x6c && bytes[i] <= 0x6f) || (bytes[i] >= 0xa4 && bytes[i] <= 0xa7) ||
	       (bytes[i] >= 0xaa && bytes[i] <= 0xaf);
}

static const struct isa isas[] = {
	{ "aarch64", mark_arm64, never, settles_arm64, stores_alone_arm64 },
	{ "riscv64", mark_riscv64, never, settles_riscv64, stores_alone_riscv64 },
	{ "x86_64", mark_x86_64, is_repeated_x86_64, settles_x86_64, never },
};

const struct isa *isa_find(const char *target_name)
{
	for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
		if (!strcmp(isas[i].target_name, target_name))
			return &isas[i];
	return NULL;
}
