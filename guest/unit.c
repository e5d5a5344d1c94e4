// SPDX-License-Identifier: GPL-2.0-or-later
/* Use of a vector unit; unit.h says what each function does. */
#include "system.h"
#include "text.h"
#include "unit.h"

/* What "after" sleeps: more than the second of the arm64 proposals that stop tracking SVE. */
#define SLEEP_AFTER_NS 1200000000

void use_before_windows(const struct state *state)
{
	if (!state || state->use == USE_NEVER || state->use == USE_EACH)
		return;
	state->unit->fill();
	if (state->use == USE_AFTER)
		sleep_for(SLEEP_AFTER_NS);
}

static long filled_with(const struct registers *registers, long number)
{
	return registers->filled ? registers->filled : number + 1;
}

/* The first byte of `own`, the `number`th of `registers`, that is not as promised; -1 for none. */
static long wrong_byte(const struct registers *registers, long number, const unsigned char *own,
		       long bytes, int each)
{
	for (long i = 0; i < bytes; i++) {
		int is_kept = i < registers->kept;

		if (is_kept && each && number < registers->used)
			continue;
		if (is_kept ? own[i] != filled_with(registers, number)
			    : own[i] && own[i] != registers->rest)
			return i;
	}
	return -1;
}

static void report_register(const char *name, const struct registers *registers, long number,
			    long byte, long is)
{
	struct line line = console_line("register ");

	put(&line, name);
	put(&line, " ");
	put(&line, registers->name);
	put_number(&line, number);
	put(&line, " byte=");
	put_number(&line, byte);
	put(&line, " is=");
	put_number(&line, is);
	put(&line, " filled=");
	put_number(&line, filled_with(registers, number));
	put(&line, " promised=");
	put_number(&line,
		   byte < registers->kept ? filled_with(registers, number) : registers->rest);
	say(&line);
}

void check_registers(const struct state *state, const char *name)
{
	const unsigned char *own = (unsigned char *)pages;
	long vector = state->unit->bits() / 8;

	state->unit->save(pages);
	for (const struct registers *r = state->unit->registers; r->name; r++) {
		long count = r->count ? r->count : vector, bytes = r->part ? vector / r->part : 1;

		for (long number = 0; number < count; number++, own += bytes) {
			long byte = wrong_byte(r, number, own, bytes, state->use == USE_EACH);

			if (byte >= 0)
				report_register(name, r, number, byte, own[byte]);
		}
	}
}
