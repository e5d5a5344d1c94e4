/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads what QEMU hands over in a flattened device tree (devicetree.org's specification, 5). */
#ifndef KENTRY_FLOOR_FDT_H
#define KENTRY_FLOOR_FDT_H

#include "floor.h"
#include "text.h"

enum { FDT_BEGIN_NODE = 1, FDT_END_NODE, FDT_PROP, FDT_NOP };

static unsigned int be32(const char *at)
{
	const unsigned char *byte = (const unsigned char *)at;

	return (unsigned int)byte[0] << 24 | byte[1] << 16 | byte[2] << 8 | byte[3];
}

/* A number of one cell, or of two. */
static unsigned long cells(const char *at, unsigned int bytes)
{
	return bytes == 8 ? (unsigned long)be32(at) << 32 | be32(at + 4) : be32(at);
}

/* `high` is how much further the kernel half maps memory. */
static struct handed read_fdt(const char *fdt, unsigned long high)
{
	const char *at = fdt + be32(fdt + 8), *names = fdt + be32(fdt + 12);
	struct handed handed = { "", 0, 0 };

	for (;;) {
		unsigned int token = be32(at);

		at += 4;
		if (token == FDT_BEGIN_NODE) {
			while (*at)
				at++;
			at = (const char *)(((unsigned long)at + 4) & ~3ul);
		} else if (token == FDT_PROP) {
			unsigned int bytes = be32(at);
			const char *name = names + be32(at + 4), *value = at + 8;

			if (same(name, "bootargs"))
				handed.words = value;
			else if (same(name, "linux,initrd-start"))
				handed.files = (const char *)(cells(value, bytes) + high);
			else if (same(name, "linux,initrd-end"))
				handed.files_end = (const char *)(cells(value, bytes) + high);
			at = value + ((bytes + 3) & ~3u);
		} else if (token != FDT_END_NODE && token != FDT_NOP) {
			return handed;
		}
	}
}

#endif
