// SPDX-License-Identifier: GPL-2.0-or-later
#include "tasks_isa.h"

#include <stdio.h>
#include <string.h>

static uint32_t word_of(const uint8_t *bytes)
{
	return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* --- arm64 ------------------------------------------------------------ */

#define ARM64_EC_SVC 0x15
#define ARM64_EC_SVC32 0x11

/*
 * The low bits of a vector's address say what it is for (Arm ARM D1.4.1), in the kernel's
 * own table as in those of the Spectre and Meltdown mitigations.
 */
static struct entry entry_arm64(uint64_t address, uint64_t esr)
{
	int32_t class = (int32_t)(esr >> 26 & 0x3f);

	if (address & 0x180)
		return (struct entry){ ENTRY_INTERRUPT, 0 };
	if (class == ARM64_EC_SVC || class == ARM64_EC_SVC32)
		return (struct entry){ ENTRY_SYSCALL, 0 };
	return (struct entry){ ENTRY_FAULT, class };
}

/* Arm ARM C4.1: bits 28:25 are 0010 for SVE; 0000 with bit 31 for SME. */
static enum vector_class vector_arm64(const uint8_t *bytes, size_t length)
{
	uint32_t word = length == 4 ? word_of(bytes) : 0;
	uint32_t group = word >> 25 & 0xf;

	if (group == 2)
		return VECTOR_PLAIN;
	if (group == 0 && word >> 31)
		return VECTOR_SME;
	/* msr SVCRSM, SVCRZA or SVCRSMZA, #imm: smstart and smstop; msr or mrs of SVCR */
	if ((word & 0xfffff8ff) == 0xd503407f && (word >> 9 & 3))
		return VECTOR_MODE;
	if ((word & 0xffdfffe0) == 0xd51b4240)
		return VECTOR_MODE;
	return VECTOR_NONE;
}

/* mrs of CNTVCT_EL0, CNTVCTSS_EL0, CNTPCT_EL0 or CNTPCTSS_EL0 */
static int reads_clock_arm64(const uint8_t *bytes, size_t length, char low[8], char high[8])
{
	uint32_t word = length == 4 ? word_of(bytes) : 0;
	uint32_t which = word & 0xffffffe0;

	if (which != 0xd53be040 && which != 0xd53be0c0 && which != 0xd53be020 &&
	    which != 0xd53be0a0)
		return 0;
	if ((word & 31) == 31)
		return 0;
	snprintf(low, 8, "x%u", word & 31);
	high[0] = 0;
	return 1;
}

/* --- riscv64 ---------------------------------------------------------- */

#define RISCV64_ECALL_U 8

static struct entry entry_riscv64(uint64_t address, uint64_t scause)
{
	(void)address;
	if (scause >> 63)
		return (struct entry){ ENTRY_INTERRUPT, 0 };
	if (scause == RISCV64_ECALL_U)
		return (struct entry){ ENTRY_SYSCALL, 0 };
	return (struct entry){ ENTRY_FAULT, (int32_t)scause };
}

/* As Linux decodes what may be a first use: arch/riscv/kernel/vector.c, insn_is_vector(). */
static enum vector_class vector_riscv64(const uint8_t *bytes, size_t length)
{
	uint32_t word = length == 4 ? word_of(bytes) : 0;
	uint32_t opcode = word & 0x7f, width = word >> 12 & 7, csr = word >> 20;

	if (opcode == 0x57)
		return VECTOR_PLAIN;
	if ((opcode == 0x07 || opcode == 0x27) && (width == 0 || width >= 5))
		return VECTOR_PLAIN;
	if (opcode == 0x73 && width && width != 4 &&
	    ((csr >= 0x008 && csr <= 0x00a) || csr == 0x00f || (csr >= 0xc20 && csr <= 0xc22)))
		return VECTOR_PLAIN;
	return VECTOR_NONE;
}

/* csrrs rd, time, x0 */
static int reads_clock_riscv64(const uint8_t *bytes, size_t length, char low[8], char high[8])
{
	static const char names[32][4] = { "",	 "ra", "sp",  "gp",  "tp", "t0", "t1", "t2",
					   "fp", "s1", "a0",  "a1",  "a2", "a3", "a4", "a5",
					   "a6", "a7", "s2",  "s3",  "s4", "s5", "s6", "s7",
					   "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6" };
	uint32_t word = length == 4 ? word_of(bytes) : 0;

	if ((word & 0xfffff07f) != 0xc0102073 || !(word >> 7 & 31))
		return 0;
	snprintf(low, 8, "%s", names[word >> 7 & 31]);
	high[0] = 0;
	return 1;
}

/* --- x86_64 ----------------------------------------------------------- */

/*
 * VEX and EVEX prefixes, which 64-bit code has nothing else for, less the instructions
 * on general registers that have them too (BMI: Intel SDM 2A, table 2-28).
 */
static enum vector_class vector_x86_64(const uint8_t *bytes, size_t length)
{
	size_t i = 0;

	while (i < length && (bytes[i] == 0x64 || bytes[i] == 0x65 || bytes[i] == 0x67))
		i++;
	if (i + 3 > length)
		return VECTOR_NONE;
	if (bytes[i] == 0x62 || bytes[i] == 0xc5)
		return VECTOR_PLAIN;
	if (bytes[i] != 0xc4 || i + 4 > length)
		return VECTOR_NONE;
	if ((bytes[i + 1] & 0x1f) == 2 && bytes[i + 3] >= 0xf2 && bytes[i + 3] <= 0xf7)
		return VECTOR_NONE;
	if ((bytes[i + 1] & 0x1f) == 3 && bytes[i + 3] == 0xf0)
		return VECTOR_NONE;
	return VECTOR_PLAIN;
}

/* rdtsc and rdtscp */
static int reads_clock_x86_64(const uint8_t *bytes, size_t length, char low[8], char high[8])
{
	int found = (length == 2 && bytes[0] == 0x0f && bytes[1] == 0x31) ||
		    (length == 3 && bytes[0] == 0x0f && bytes[1] == 0x01 && bytes[2] == 0xf9);

	if (found) {
		strcpy(low, "rax");
		strcpy(high, "rdx");
	}
	return found;
}

static const struct tasks_isa isas[] = {
	{
		.target_name = "aarch64",
		.arguments = { "x0", "x1" },
		.syscall_number = "x8",
		.cause = "ESR_EL1",
		.streaming = "SVCR",
		.clock_frequency = "CNTFRQ_EL0",
		.entry = entry_arm64,
		.vector = vector_arm64,
		.reads_clock = reads_clock_arm64,
	},
	{
		.target_name = "riscv64",
		.arguments = { "a0", "a1" },
		.syscall_number = "a7",
		.cause = "scause",
		/* QEMU's virt machine: RISCV_ACLINT_DEFAULT_TIMEBASE_FREQ */
		.clock_hz = 10000000,
		.entry = entry_riscv64,
		.vector = vector_riscv64,
		.reads_clock = reads_clock_riscv64,
	},
	{
		.target_name = "x86_64",
		.arguments = { "rdi", "rsi" },
		.syscall_number = "rax",
		/* Under -icount the time stamp counter counts the virtual clock's ns. */
		.clock_hz = 1000000000,
		.vector = vector_x86_64,
		.reads_clock = reads_clock_x86_64,
	},
};

const struct tasks_isa *tasks_isa_find(const char *target_name)
{
	for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
		if (!strcmp(isas[i].target_name, target_name))
			return &isas[i];
	return NULL;
}
