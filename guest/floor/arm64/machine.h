/* SPDX-License-Identifier: GPL-2.0-or-later */
/* arm64: QEMU's virt machine, booted as Documentation/arch/arm64/booting.rst says. */
#ifndef KENTRY_FLOOR_MACHINE_H
#define KENTRY_FLOOR_MACHINE_H

#include "fdt.h"

#define HIGH 0xffffff8000000000
#define UART (HIGH + 0x09000000)
#define PSCI_SYSTEM_OFF 0x84000008
/* PMEVTYPER<n>_EL0: instructions retired, not those of EL0. */
#define INST_RETIRED 0x08
#define NOT_USER (1ul << 30)

static inline void put_byte(char byte)
{
	*(volatile unsigned int *)UART = (unsigned char)byte;
}

__attribute__((noreturn)) static inline void power_off(void)
{
	register long x0 __asm__("x0") = PSCI_SYSTEM_OFF;

	__asm__ volatile("hvc #0" : "+r"(x0));
	__builtin_unreachable();
}

static inline void start_counter(void)
{
	__asm__ volatile("msr pmevtyper0_el0, %0\n\t"
			 "msr pmcntenset_el0, %1\n\t"
			 "msr pmcr_el0, %1\n\t"
			 "isb"
			 :
			 : "r"(INST_RETIRED | NOT_USER), "r"(1ul));
}

static inline long read_counter(void)
{
	long count;

	__asm__ volatile("mrs %0, pmevcntr0_el0" : "=r"(count)::"memory");
	return count;
}

static inline void new_code(void)
{
	__asm__ volatile("dsb ish\n\tic iallu\n\tdsb ish\n\tisb" ::: "memory");
}

/* `boot` is the device tree's physical address. */
static inline struct handed read_boot(unsigned long boot)
{
	return read_fdt((const char *)(boot + HIGH), HIGH);
}

#endif
