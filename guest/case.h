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

#define CLOCK_MONOTONIC 1

#define CALL(name, ...)                                                            \
	{                                                                          \
		.nr = NR_##name, .compat_nr = NR32_##name, .args = { __VA_ARGS__ } \
	}

#ifdef ARCH_COMPAT_ENTRY
#define ENTRIES_ALL "native," ARCH_COMPAT_ENTRY
#else
#define ENTRIES_ALL "native"
#endif
#define ENTRIES_NATIVE "native"

#define CASE_(symbol, case_name, entries_text, summary_text, group_text, uses_text, is_native, \
	      ...)                                                                             \
	static const char catalogue_##symbol[]                                                 \
		__attribute__((section(".kentry.catalogue"), used, aligned(1))) = case_name    \
		"|" entries_text "|" summary_text "|" group_text "|" uses_text;                \
	static const struct probe_case case_##symbol = {                                       \
		.name = case_name, .group = group_text, .native_only = is_native, __VA_ARGS__  \
	};                                                                                     \
	static const struct probe_case *const case_pointer_##symbol                            \
		__attribute__((section("kentry_cases"), used)) = &case_##symbol

/* CASE(name, summary, fields...): a case that every entry instruction can run. */
#define CASE(symbol, name, summary, ...) \
	CASE_(symbol, name, ENTRIES_ALL, summary, "", "", 0, __VA_ARGS__)
/* One that has no system call to enter by another instruction. */
#define CASE_NATIVE(symbol, name, summary, ...) \
	CASE_(symbol, name, ENTRIES_NATIVE, summary, "", "", 1, __VA_ARGS__)
/* One that runs only by its name: what vector states cost in it is what it is for. */
#define CASE_VECTOR(symbol, name, summary, ...) \
	CASE_(symbol, name, ENTRIES_NATIVE, summary, "vector", "", 1, __VA_ARGS__)
/* The same, and only in the states of `uses`, words of state.h. */
#define CASE_STATES(symbol, name, uses, summary, ...)                                     \
	CASE_(symbol, name, ENTRIES_NATIVE, summary, "vector", uses, 1, .needs_state = 1, \
	      __VA_ARGS__)
/* One of a group that runs where it or its group is named. */
#define CASE_OF(group, symbol, name, summary, ...) \
	CASE_(symbol, name, ENTRIES_NATIVE, summary, group, "", 1, __VA_ARGS__)
/* The same for SHAPE_MARKED, where no use of a vector unit can be put into the window. */
#define CASE_PART(group, symbol, name, summary, ...)                              \
	CASE_(symbol, name, ENTRIES_NATIVE, summary, group, "none once after", 1, \
	      .shape = SHAPE_MARKED, __VA_ARGS__)

#endif
