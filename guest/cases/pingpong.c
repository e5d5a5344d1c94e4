/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"
#include "unit.h"

enum { READ_END, WRITE_END };

static int there[2], back[2];
static long partner;

static void close_ends(int one, int other)
{
	SYS(close, one, 0, 0, 0);
	SYS(close, other, 0, 0, 0);
}

/* Answers every byte, in the state that the other side is in; ends when that side does. */
static void answer(const struct state *state)
{
	char byte;

	if (state && (state->use == USE_ONCE || state->use == USE_AFTER))
		state->unit->use();
	for (long i = 0; SYS(read, there[READ_END], &byte, 1, 0) == 1; i++) {
		if (state && state->use == USE_EACH && i % state->calls == 0)
			state->unit->use();
		SYS(write, back[WRITE_END], &byte, 1, 0);
	}
}

static long setup(struct work *w)
{
	long err = SYS(pipe2, there, 0, 0, 0);

	if (!err)
		err = SYS(pipe2, back, 0, 0, 0);
	if (!err)
		err = set_policy(SCHED_BATCH);
	if (err)
		return err;
	partner = fork_child();
	if (partner == 0) {
		close_ends(there[WRITE_END], back[READ_END]);
		answer(w->state);
		exit_child(0);
	}
	close_ends(there[READ_END], back[WRITE_END]);
	return partner < 0 ? partner : 0;
}

static void run(struct work *w)
{
	w->first.ret = SYS(write, there[WRITE_END], buffer, 1, 0);
	w->second.ret = SYS(read, back[READ_END], buffer, 1, 0);
}

static void finish(struct work *w)
{
	(void)w;
	SYS(kill, partner, SIGKILL, 0, 0);
	wait_child(partner);
	set_policy(SCHED_OTHER);
}

CASE_VECTOR(pingpong, "pingpong", "1 byte to another process and back, over two pipes",
	    .shape = SHAPE_OWN, .want_first = 1, .want_second = 1, .setup = setup, .run = run,
	    .finish = finish);
