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
		return (struct entry){ ENTRY_INTERRUPT, 0, IS_INTERRUPT };
	if (class == ARM64_EC_SVC)
		return (struct entry){ ENTRY_SYSCALL, 0, IS_SYSCALL };
	if (class == ARM64_EC_SVC32)
		return (struct entry){ ENTRY_SYSCALL, 0, IS_COMPAT };
	return (struct entry){ ENTRY_FAULT, class, IS_FAULT };
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

/* eret, eretaa, eretab */
static enum return_kind returns_arm64(const uint8_t *bytes, size_t length)
{
	uint32_t word = length == 4 ? word_of(bytes) : 0;

	return word == 0xd69f03e0 || (word & 0xfffffbff) == 0xd69f0bff ? RETURN_TO_CALLER
								       : RETURN_NONE;
}

/* Arm ARM C4.1, bits 28:25: "Data processing -- immediate" (100x) and "-- register" (x101) */
static int is_sure_arm64(const uint8_t *bytes, size_t length)
{
	uint32_t group = length == 4 ? word_of(bytes) >> 25 & 0xf : 0;

	return (group & 0xe) == 0x8 || (group & 0x7) == 0x5;
}

/* --- riscv64 ---------------------------------------------------------- */

#define RISCV64_ECALL_U 8

static struct entry entry_riscv64(uint64_t address, uint64_t scause)
{
	(void)address;
	if (scause >> 63)
		return (struct entry){ ENTRY_INTERRUPT, (int32_t)(scause & 0xff), IS_INTERRUPT };
	if (scause == RISCV64_ECALL_U)
		return (struct entry){ ENTRY_SYSCALL, 0, IS_SYSCALL };
	return (struct entry){ ENTRY_FAULT, (int32_t)scause, IS_FAULT };
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

static enum return_kind returns_riscv64(const uint8_t *bytes, size_t length)
{
	return length == 4 && word_of(bytes) == 0x10200073 ? RETURN_TO_CALLER : RETURN_NONE;
}

/* OP, OP-32, OP-IMM, OP-IMM-32, lui and auipc; of the compressed ones those that are such. */
static int is_sure_riscv64(const uint8_t *bytes, size_t length)
{
	uint32_t opcode = bytes[0] & 0x7f, half = (uint32_t)(bytes[0] | bytes[1] << 8);
	uint32_t quadrant = half & 3, function = half >> 13;

	if (length == 4)
		return opcode == 0x33 || opcode == 0x3b || opcode == 0x13 || opcode == 0x1b ||
		       opcode == 0x37 || opcode == 0x17;
	/* c.addi4spn; c.addi, c.addiw, c.li, c.lui, c.sub and others; c.slli, c.mv and c.add */
	if (quadrant == 0)
		return function == 0 && half;
	if (quadrant == 1)
		return function <= 4;
	return function == 0 || (function == 4 && (half & 0x7c));
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

/* iretq; sysretq, sysretl and sysexit go to user mode. */
static enum return_kind returns_x86_64(const uint8_t *bytes, size_t length)
{
	size_t i = length && (bytes[0] & 0xf0) == 0x40;

	if (length == i + 1 && bytes[i] == 0xcf)
		return RETURN_BY_STACK;
	if (length == i + 2 && bytes[i] == 0x0f && (bytes[i + 1] == 0x07 || bytes[i + 1] == 0x35))
		return RETURN_TO_CALLER;
	return RETURN_NONE;
}

/*
 * Of what compilers use most, the forms without memory (SDM 2, "Opcode Map"): arithmetic, mov,
 * shifts, test, lea, cmov, setcc, movzx, nop, endbr64.
 */
static int is_sure_x86_64(const uint8_t *bytes, size_t length)
{
	size_t i = 0;
	int in_registers;

	while (i < length && (bytes[i] == 0x66 || bytes[i] == 0x2e))
		i++;
	if (i < length && (bytes[i] & 0xf0) == 0x40)
		i++;
	if (i >= length)
		return 0;
	if (length == 4 && word_of(bytes) == 0xfa1e0ff3)
		return 1;
	if (bytes[i] == 0x90 || (bytes[i] & 0xf0) == 0xb0)
		return 1;
	/* Arithmetic of the accumulator and a constant */
	if (bytes[i] < 0x40 && ((bytes[i] & 7) == 4 || (bytes[i] & 7) == 5))
		return 1;
	if (bytes[i] == 0xa8 || bytes[i] == 0xa9 || (bytes[i] >= 0x98 && bytes[i] <= 0x99))
		return 1;
	if (i + 1 >= length)
		return 0;
	in_registers = bytes[i + 1] >= 0xc0;
	if (bytes[i] == 0x8d)
		return !in_registers;
	if (bytes[i] == 0x0f) {
		uint8_t second = bytes[i + 1];

		if (i + 2 >= length)
			return 0;
		in_registers = bytes[i + 2] >= 0xc0;
		if (second == 0x1f)
			return 1;
		return in_registers &&
		       ((second & 0xf0) == 0x40 || (second & 0xf0) == 0x90 || second == 0xb6 ||
			second == 0xb7 || second == 0xbe || second == 0xbf || second == 0xaf);
	}
	if (!in_registers)
		return 0;
	if (bytes[i] < 0x40 && (bytes[i] & 7) < 4)
		return 1;
	switch (bytes[i]) {
	case 0x63:
	case 0x69:
	case 0x6b:
	case 0x80:
	case 0x81:
	case 0x83:
	case 0x84:
	case 0x85:
	case 0x88:
	case 0x89:
	case 0x8a:
	case 0x8b:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0xc7:
	case 0xd0:
	case 0xd1:
	case 0xd2:
	case 0xd3:
		return 1;
	case 0xf6:
	case 0xf7: /* test, not, neg, mul and imul: a division may fault */
		return (bytes[i + 1] >> 3 & 7) < 6;
	case 0xff: /* inc, dec */
	case 0xfe:
		return (bytes[i + 1] >> 3 & 7) < 2;
	default:
		return 0;
	}
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
		.return_address = "x30",
		.vector = vector_arm64,
		.returns = returns_arm64,
		.is_sure = is_sure_arm64,
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
		.return_address = "ra",
		.vector = vector_riscv64,
		.returns = returns_riscv64,
		.is_sure = is_sure_riscv64,
		.reads_clock = reads_clock_riscv64,
	},
	{
		.target_name = "x86_64",
		.arguments = { "rdi", "rsi" },
		.syscall_number = "rax",
		/* Under -icount the time stamp counter counts the virtual clock's ns. */
		.clock_hz = 1000000000,
		.stack = "rsp",
		.vector = vector_x86_64,
		.returns = returns_x86_64,
		.is_sure = is_sure_x86_64,
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
