// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Finds clock_gettime in the vDSO, the page of code the kernel maps into every
 * process: an ELF image whose dynamic section names its symbols.
 */
#include "system.h"
#include "text.h"
#include "vdso.h"

#define PT_LOAD 1
#define PT_DYNAMIC 2
#define DT_HASH 4
#define DT_STRTAB 5
#define DT_SYMTAB 6
#define DT_GNU_HASH 0x6ffffef5

struct elf_header {
	unsigned char ident[16];
	unsigned short type, machine;
	unsigned int version;
	unsigned long entry, phoff, shoff;
	unsigned int flags;
	unsigned short ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};

struct elf_segment {
	unsigned int type, flags;
	unsigned long offset, vaddr, paddr, filesz, memsz, align;
};

struct elf_symbol {
	unsigned int name;
	unsigned char info, other;
	unsigned short shndx;
	unsigned long value, size;
};

struct vdso {
	unsigned long bias;
	const unsigned long *dynamic;
};

static struct vdso load(unsigned long image)
{
	const struct elf_header *header = (const void *)image;
	const struct elf_segment *segment = (const void *)(image + header->phoff);
	struct vdso vdso = { 0, 0 };

	for (int i = 0; i < header->phnum; i++) {
		if (segment[i].type == PT_LOAD)
			vdso.bias = image + segment[i].offset - segment[i].vaddr;
		if (segment[i].type == PT_DYNAMIC)
			vdso.dynamic = (const void *)(image + segment[i].offset);
	}
	return vdso;
}

static const void *dynamic_entry(const struct vdso *vdso, unsigned long tag)
{
	for (const unsigned long *d = vdso->dynamic; d[0]; d += 2)
		if (d[0] == tag)
			return (const void *)(vdso->bias + d[1]);
	return 0;
}

/*
 * The symbol table carries no length: DT_HASH's second word is it; where there
 * is only DT_GNU_HASH, the string table follows the symbols in every kernel's vDSO.
 */
static unsigned long count_symbols(const struct vdso *vdso)
{
	const unsigned int *hash = dynamic_entry(vdso, DT_HASH);
	const char *symbols = dynamic_entry(vdso, DT_SYMTAB);
	const char *strings = dynamic_entry(vdso, DT_STRTAB);

	if (hash)
		return hash[1];
	return (unsigned long)(strings - symbols) / sizeof(struct elf_symbol);
}

clock_gettime_fn vdso_clock_gettime(const unsigned long *auxv)
{
	unsigned long image = auxv_value(auxv, AT_SYSINFO_EHDR);
	struct vdso vdso;
	const struct elf_symbol *symbols;
	const char *strings;

	if (!image)
		return 0;
	vdso = load(image);
	if (!vdso.dynamic)
		return 0;
	symbols = dynamic_entry(&vdso, DT_SYMTAB);
	strings = dynamic_entry(&vdso, DT_STRTAB);
	for (unsigned long i = 0; i < count_symbols(&vdso); i++) {
		const char *name = strings + symbols[i].name;

		/* arm64 calls it __kernel_*, everyone else __vdso_*. */
		if (same(name, "__vdso_clock_gettime") || same(name, "__kernel_clock_gettime"))
			return (clock_gettime_fn)(vdso.bias + symbols[i].value);
	}
	return 0;
}
