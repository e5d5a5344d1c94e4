/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86-64: QEMU's q35 machine, booted by PVH (xen.git, docs/misc/pvh.pandoc). */
#ifndef KENTRY_FLOOR_MACHINE_H
#define KENTRY_FLOOR_MACHINE_H

#include "floor.h"

/* Where boot.S maps all memory. */
#define LINEAR 0xffff800000000000
#define UART 0x3f8
/* The port of PM1a control where the firmware puts it, SLP_EN with type 0: off. */
#define PM_CONTROL 0x604
#define POWER_OFF 0x2000

/* xen/include/public/arch-x86/hvm/start_info.h */
struct start_info {
	unsigned int magic, version, flags, modules_count;
	unsigned long modules, words;
};

struct module {
	unsigned long address, bytes;
};

static inline void put_byte(char byte)
{
	__asm__ volatile("outb %0, %1" : : "a"(byte), "d"((short)UART));
}

__attribute__((noreturn)) static inline void power_off(void)
{
	__asm__ volatile("outw %0, %1" : : "a"((short)POWER_OFF), "d"((short)PM_CONTROL));
	for (;;)
		;
}

/* The probe reads the time stamp counter itself. */
static inline void start_counter(void)
{
}

static inline long read_counter(void)
{
	return 0;
}

static inline void new_code(void)
{
}

/* `boot` is start_info's physical address. */
static inline struct handed read_boot(unsigned long boot)
{
	const struct start_info *info = (const void *)(boot + LINEAR);
	const struct module *files = (const void *)(info->modules + LINEAR);
	struct handed handed = { (const char *)(info->words + LINEAR), 0, 0 };

	if (info->modules_count) {
		handed.files = (const char *)(files->address + LINEAR);
		handed.files_end = handed.files + files->bytes;
	}
	return handed;
}

#endif
