/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a case is written: one file in cases/ with one CASE(), nothing else to edit.
 * CASE() puts the record where the probe finds it, and its name, entries, summary, group and uses
 * into an ELF section of their own, from which kentry reads the catalogue: lines of
 * "name|entries|summary|group|uses".
 */
#ifndef KENTRY_CASE_H
#define KENTRY_CASE_H

#include "arch.h"
#include "macros.h"
#include "numbers.h"
#include "probe_case.h"
#include "system.h"

#define CALL(name, ...)                                                            \
	{                                                                          \
		.nr = NR_##name, .compat_nr = NR32_##name, .args = { __VA_ARGS__ } \
	}

#ifdef ARCH_COMPAT_ENTRY
#define ENTRIES_ALL "native," ARCH_COMPAT_ENTRY
#define COMPAT_NAME(name) name "@" ARCH_COMPAT_ENTRY
#else
#define ENTRIES_ALL "native"
#define COMPAT_NAME(name) 0
#endif
#define ENTRIES_NATIVE "native"

#define CASE_(symbol, case_name, entries_text, summary_text, group_text, uses_text, entered, ...) \
	static const char catalogue_##symbol[]                                                    \
		__attribute__((section(".kentry.catalogue." #symbol), used, aligned(1))) =        \
			case_name "|" entries_text "|" summary_text "|" group_text "|" uses_text; \
	static const struct probe_case case_##symbol = {                                          \
		.name = case_name, .compat_name = entered, .group = group_text, __VA_ARGS__       \
	};                                                                                        \
	static const struct probe_case *const case_pointer_##symbol                               \
		__attribute__((section("kentry_cases." #symbol), used)) = &case_##symbol

/* CASE(name, summary, fields...): a case that every entry instruction can run. */
#define CASE(symbol, name, summary, ...) \
	CASE_(symbol, name, ENTRIES_ALL, summary, "", "", COMPAT_NAME(name), __VA_ARGS__)
/* One that has no system call to enter by another instruction. */
#define CASE_NATIVE(symbol, name, summary, ...) \
	CASE_(symbol, name, ENTRIES_NATIVE, summary, "", "", 0, __VA_ARGS__)
/* One that runs only by its name: what vector states cost in it is what it is for. */
#define CASE_VECTOR(symbol, name, summary, ...) \
	CASE_(symbol, name, ENTRIES_NATIVE, summary, "vector", "", 0, __VA_ARGS__)
/* The same, and only in the states of `uses`, words of state.h. */
#define CASE_STATES(symbol, name, uses, summary, ...)                                     \
	CASE_(symbol, name, ENTRIES_NATIVE, summary, "vector", uses, 0, .needs_state = 1, \
	      __VA_ARGS__)
/* One of a group that runs where it or its group is named. */
#define CASE_OF(group, symbol, name, summary, ...) \
	CASE_(symbol, name, ENTRIES_NATIVE, summary, group, "", 0, __VA_ARGS__)
/* The same for SHAPE_MARKED, where no use of a vector unit can be put into the window. */
#define CASE_PART(group, symbol, name, summary, ...)                              \
	CASE_(symbol, name, ENTRIES_NATIVE, summary, group, "none once after", 0, \
	      .shape = SHAPE_MARKED, __VA_ARGS__)

#endif
