/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who is the kernel. */
#ifndef KENTRY_KERNEL_H
#define KENTRY_KERNEL_H

/*
 * Sends where /proc/kallsyms has _stext; says nothing where it cannot be read.  Not _text:
 * arm64 kernels before 6.2 have no such symbol.
 */
void send_text_address(void);
void report_release(void);
/* /sys/kernel/notes begins with the GNU build ID note: 12 bytes, "GNU\0", the ID. */
void report_build_id(void);

#endif
