/* SPDX-License-Identifier: GPL-2.0-or-later */
/* riscv64: QEMU's virt machine, booted as Documentation/arch/riscv/boot.rst says. */
#ifndef KENTRY_FLOOR_MACHINE_H
#define KENTRY_FLOOR_MACHINE_H

#include "fdt.h"

#define HIGH 0xffffffc000000000
#define UART (HIGH + 0x10000000)
/* The machine's test device, and its word for power off. */
#define TEST_DEVICE (HIGH + 0x100000)
#define POWER_OFF 0x5555

static inline void put_byte(char byte)
{
	*(volatile unsigned char *)UART = (unsigned char)byte;
}

__attribute__((noreturn)) static inline void power_off(void)
{
	*(volatile unsigned int *)TEST_DEVICE = POWER_OFF;
	for (;;)
		;
}

/* It always counts, in all modes. */
static inline void start_counter(void)
{
}

static inline long read_counter(void)
{
	long count;

	__asm__ volatile("rdinstret %0" : "=r"(count)::"memory");
	return count;
}

static inline void new_code(void)
{
	__asm__ volatile("fence.i" ::: "memory");
}

/* `boot` is the device tree's physical address. */
static inline struct handed read_boot(unsigned long boot)
{
	return read_fdt((const char *)(boot + HIGH), HIGH);
}

#endif
