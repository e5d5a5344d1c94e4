// SPDX-License-Identifier: GPL-2.0-or-later
/* Use of a vector unit; unit.h says what the function does. */
#include "system.h"
#include "unit.h"

/* What "after" sleeps: more than the second of the arm64 proposals that stop tracking SVE. */
#define SLEEP_AFTER_NS 1200000000

void use_before_windows(const struct state *state)
{
	if (!state || state->use == USE_NEVER || state->use == USE_EACH)
		return;
	state->unit->use();
	if (state->use == USE_AFTER)
		sleep_for(SLEEP_AFTER_NS);
}
