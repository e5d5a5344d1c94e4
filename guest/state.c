// SPDX-License-Identifier: GPL-2.0-or-later
/* Vector states; state.h says what each function does.  PID 1 itself never uses a unit. */
#include "macros.h"
#include "state.h"
#include "system.h"
#include "text.h"
#include "vector.h"

/* Vector lengths as a new process has them; 0 where there is no such unit. */
static long default_bits[ARRAY_SIZE(units)];

/* --- units ------------------------------------------------------------ */

/* A child asks, because asking may be a use; one that dies of it has not got the unit. */
static long ask_bits(const struct unit *unit)
{
	int ends[2];
	long bits = 0, child;

	if (SYS(pipe2, ends, 0, 0, 0))
		return 0;
	child = fork_child();
	if (child == 0) {
		bits = unit->bits();
		SYS(write, ends[1], &bits, sizeof(bits), 0);
		exit_child(0);
	}
	if (wait_child(child) == 0)
		SYS(read, ends[0], &bits, sizeof(bits), 0);
	close_files();
	return bits;
}

void find_units(const unsigned long *auxv)
{
	for (unsigned long i = 0; i < ARRAY_SIZE(units); i++) {
		struct line line = console_line("vector ");

		default_bits[i] = units[i].is_there(auxv) ? ask_bits(&units[i]) : 0;
		put(&line, units[i].name);
		put(&line, " ");
		put_number(&line, default_bits[i]);
		say(&line);
	}
}

/* --- names ------------------------------------------------------------ */

static const struct unit *find_unit(const char *text, const char **rest)
{
	for (unsigned long i = 0; i < ARRAY_SIZE(units); i++) {
		*rest = after(text, units[i].name);
		if (*rest && **rest == '=')
			return &units[i];
	}
	return 0;
}

const char *find_state(const char *name)
{
	const char *rest;

	for (; *name; name++)
		if (*name == '+' && find_unit(name + 1, &rest))
			return name;
	return 0;
}

/* What follows the STATE at `text`; null where it is none. */
static const char *parse_use(const char *text, struct state *state)
{
	static const struct {
		const char *word;
		enum use use;
	} uses[] = { { "none", USE_NEVER },
		     { "once", USE_ONCE },
		     { "after", USE_AFTER },
		     { "each", USE_EACH },
		     { "1/", USE_EACH } };
	const char *rest = 0;

	for (unsigned long i = 0; i < ARRAY_SIZE(uses) && !rest; i++) {
		rest = after(text, uses[i].word);
		state->use = uses[i].use;
	}
	state->calls = 1;
	if (!rest || rest[-1] != '/')
		return rest;
	rest = take_number(rest, &state->calls);
	return state->calls >= 2 ? rest : 0;
}

int parse_state(const char *text, struct state *state)
{
	const char *rest;

	*state = (struct state){ .unit = find_unit(text + 1, &rest) };
	rest = parse_use(rest + 1, state);
	if (rest && after(rest, "+vl="))
		rest = take_number(after(rest, "+vl="), &state->bits);
	return rest && !*rest ? 0 : -1;
}

/* --- running ---------------------------------------------------------- */

/* The bits that this task has, after it asked for those of the state. */
static long take_bits(const struct state *state)
{
	long have = default_bits[state->unit - units], got = have;

	if (state->bits && state->bits != have && state->unit->set_bits)
		got = state->unit->set_bits(state->bits);
	return got < 0 ? have : got;
}

int has_unit(const struct state *state)
{
	return default_bits[state->unit - units] != 0;
}

int takes_bits(const struct state *state)
{
	return !state->bits || take_bits(state) == state->bits;
}

static int run_as_child(const struct cell *cell, const struct pass *pass)
{
	const struct state *state = cell->state;
	long bits = state ? take_bits(state) : 0;

	if (state && state->bits && bits != state->bits) {
		struct line reason = { 0 };

		put(&reason, "vl=");
		put_number(&reason, bits);
		report_absent(pass, cell->name, reason.text);
		return -1;
	}
	return run_cell(cell, pass);
}

int run_in_child(const struct cell *cell, const struct pass *pass)
{
	long child;
	int status;

	if (cell->state && !has_unit(cell->state)) {
		report_absent(pass, cell->name, "no-unit");
		return -1;
	}
	child = fork_child();
	if (child == 0)
		exit_child(run_as_child(cell, pass) != 0);
	status = wait_child(child);
	/* A wait status: the signal that ended it in bits 0 to 6, exit()'s byte above. */
	if (child < 0)
		report_failure(cell->name, "child", 0, child);
	else if (status & 0x7f)
		report_failure(cell->name, "child", 0, -(status & 0x7f));
	return status == 0 ? 0 : -1;
}
