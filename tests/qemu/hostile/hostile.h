/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The machines of hostile.c: QEMU's virt and q35. */
#include "../../../guest/marks.h"

#define UART_EMPTY 0x20 /* in the line status register of a 16550 */

/* What it takes to be off, to begin again, and to write to the console and to devices. */
#if defined(__aarch64__)

#define ANOTHER_ARCH "x86_64"
#define MARK(number) __asm__ volatile("movz xzr, %0" ::"i"(MARK_ARM64_BASE | (number)) : "memory")
#define DEVICES 0x08000000 /* GIC, UART, RTC, fw_cfg, GPIO, virtio: 48 MiB */
#define DEVICES_MASK 0x2fffffc

static inline void put(char c)
{
	*(volatile char *)0x09000000 = c;
}

static inline void psci(unsigned long function)
{
	register unsigned long x0 __asm__("x0") = function;

	__asm__ volatile("hvc #0" : "+r"(x0)::"memory");
}

static inline void off(void)
{
	psci(0x84000008);
}
static inline void reset(void)
{
	psci(0x84000009);
}

/* Documentation/arch/arm64/booting.rst */
__asm__(".section .head, \"ax\"\n"
	".globl _start\n"
	"_start:	b 1f\n"
	"	.long 0\n"
	"	.quad 0, 0x100000, 0xa, 0, 0, 0\n"
	"	.ascii \"ARM\\x64\"\n"
	"	.long 0\n"
	"1:	adr x0, stack\n"
	"	mov sp, x0\n"
	"	b begin\n"
	"	.balign 16\n"
	"	.space 4096\n"
	"stack:\n"
	".text\n");

#elif defined(__riscv)

#define ANOTHER_ARCH "aarch64"
#define MARK(number) __asm__ volatile("lui x0, %0" ::"i"(MARK_RISCV64_BASE | (number)) : "memory")
#define DEVICES 0x0c000000 /* PLIC; of UART, virtio, fw_cfg and flash what is behind it */
#define DEVICES_MASK 0x5fffffc

static inline void put(char c)
{
	/* The next before this one is out would be lost. */
	while (!(*(volatile char *)0x10000005 & UART_EMPTY))
		;
	*(volatile char *)0x10000000 = c;
}

/* SBI's system reset extension: 0 is off, 1 begins again. */
static inline void sbi(unsigned long how)
{
	register unsigned long a0 __asm__("a0") = how, a1 __asm__("a1") = 0;
	register unsigned long a6 __asm__("a6") = 0, a7 __asm__("a7") = 0x53525354;

	__asm__ volatile("ecall" : "+r"(a0), "+r"(a1) : "r"(a6), "r"(a7) : "memory");
}

static inline void off(void)
{
	sbi(0);
}
static inline void reset(void)
{
	sbi(1);
}

/* Documentation/arch/riscv/boot-image-header.rst */
__asm__(".section .head, \"ax\"\n"
	".option norvc\n"
	".globl _start\n"
	"_start:	j 1f\n"
	"	.long 0\n"
	"	.quad 0x200000, 0x100000, 0\n"
	"	.long 2, 0\n"
	"	.quad 0, 0x5643534952\n"
	"	.ascii \"RSC\\x05\"\n"
	"	.long 0\n"
	"1:	lla sp, stack\n"
	"	j begin\n"
	"	.balign 16\n"
	"	.space 4096\n"
	"stack:\n"
	".text\n");

#else

#define ANOTHER_ARCH "aarch64"
#define MARK(number)                                                                         \
	__asm__ volatile(                                                                    \
		".byte 0x0f, 0x1f, 0x84, 0x00; .long %c0" ::"i"(MARK_X86_64_BASE | (number)) \
		: "memory")
#define DEVICES 0xe0000000 /* PCI, IOAPIC, HPET, APIC: 512 MiB */
#define DEVICES_MASK 0x1ffffffc

static inline void out(unsigned short port, unsigned int value)
{
	__asm__ volatile("outl %0, %1" ::"a"(value), "d"(port));
}

static inline void put(char c)
{
	unsigned char status = 0;

	while (!(status & UART_EMPTY))
		__asm__ volatile("inb %1, %0" : "=a"(status) : "d"((unsigned short)0x3fd));
	__asm__ volatile("outb %0, %1" ::"a"(c), "d"((unsigned short)0x3f8));
}

/* The power management of q35, and its reset register. */
static inline void off(void)
{
	out(0x604, 0x2000);
}
static inline void reset(void)
{
	__asm__ volatile("outb %0, %1" ::"a"((char)6), "d"((short)0xcf9));
}

/* A note by which QEMU starts it in 32 bits, and from there to 64, in pages of 1 GiB. */
__asm__(".section .note.pvh, \"a\"\n"
	"	.long 4, 4, 18\n"
	"	.asciz \"Xen\"\n"
	"	.long _start\n"
	".section .head, \"awx\"\n"
	".code32\n"
	".globl _start\n"
	"_start:	mov $top_table, %eax\n"
	"	mov %eax, %cr3\n"
	"	mov $0x20, %eax\n" /* PAE */
	"	mov %eax, %cr4\n"
	"	mov $0xc0000080, %ecx\n" /* EFER: long mode */
	"	rdmsr\n"
	"	or $0x100, %eax\n"
	"	wrmsr\n"
	"	mov $0x80000001, %eax\n" /* paging, protection */
	"	mov %eax, %cr0\n"
	"	lgdt gdt_pointer\n"
	"	ljmp $8, $1f\n"
	".code64\n"
	"1:	mov $stack, %esp\n"
	"	call begin\n"
	"	.balign 16\n"
	"gdt:	.quad 0, 0x00af9a000000ffff\n"
	"gdt_pointer: .word 15; .quad gdt\n"
	"	.balign 4096\n"
	"top_table: .quad 1f + 3; .fill 511, 8, 0\n"
	"1:	.quad 0x83, 0x40000083, 0x80000083, 0xc0000083; .fill 508, 8, 0\n"
	"	.space 4096\n"
	"stack:\n"
	".text\n");

#endif

static inline void write_device(unsigned long where, unsigned int what)
{
#if defined(__x86_64__)
	/* As often to a port. */
	if (where & 1) {
		out(where >> 8, what);
		return;
	}
#endif
	*(volatile unsigned int *)(DEVICES + (where >> 8 & DEVICES_MASK)) = what;
}
