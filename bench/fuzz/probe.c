// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The probe's words on the fuzzer's input: its options, which the kernel's command line carries,
 * and the names of cases, of their states and of slots, which a file carries.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define next_name probe_next_name
#include "../../guest/probe.c"
#undef next_name
#include "../../guest/slots.c"

#define MOST_WORDS 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct cells by_name = { probe_next_name, find_cell, takes_entry };
	char *text = malloc(size + 1), *words[MOST_WORDS + 1] = { text };
	long count = 1; /* behind the program's own name */

	assert(text);
	memcpy(text, data, size);
	text[size] = 0;
	for (size_t at = 0; at < size && count < MOST_WORDS; at += strlen(text + at) + 1)
		words[count++] = text + at;
	parse_options(count, words);
	for (long i = 1; i < count; i++) {
		const char *state = find_state(words[i]);
		struct state parsed;

		if (state)
			parse_state(state, &parsed);
		if (!parse_slot(words[i], &by_name, &slots[0]))
			slots_used = !share_multiple(&slots[0]);
	}
	free(text);
	return 0;
}
