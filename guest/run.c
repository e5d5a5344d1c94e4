// SPDX-License-Identifier: GPL-2.0-or-later
/* One case, run; run.h says what each function does. */
#include "arch.h"
#include "counters.h"
#include "macros.h"
#include "run.h"
#include "system.h"
#include "text.h"
#include "unit.h"

/* Descriptors a case may open. */
#define MOST_FDS 4
/* So few that an interrupt hits few blocks. */
#define CALLS_A_BLOCK 4
#define MOST_BLOCKS 64

clock_gettime_fn vdso_fn;

/* --- windows ---------------------------------------------------------- */

/* A timer of realtime tasks goes on for up to two periods of 1 s (kernel/sched/rt.c). */
#define REALTIME_NS 2100000000

/* Functions of their own: what the compiler puts between the marks depends on nothing else. */

/* clang-format off */
#define WINDOW_VDSO(name, begin, end)									\
	static __attribute__((noinline)) void name(struct work *w)					\
	{												\
		__asm__ volatile(begin ::: "memory");							\
		w->first.ret = vdso_fn(w->first.args[0], (void *)w->first.args[1]);			\
		__asm__ volatile(end ::: "memory");							\
	}
/* clang-format on */
WINDOW_VDSO(window_vdso, MARK_ASM(MARK_BEGIN), MARK_ASM(MARK_END))
WINDOW_VDSO(bare_vdso, "", "")

static __attribute__((noinline)) void window_own(const struct probe_case *c, struct work *w)
{
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	c->run(w);
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
}

static void window(const struct cell *cell, struct work *w)
{
	switch (cell->c->shape) {
	case SHAPE_VDSO:
		window_vdso(w);
		break;
	case SHAPE_OWN:
		window_own(cell->c, w);
		break;
	case SHAPE_MARKED:
		cell->c->run(w);
		break;
	default:
		cell->entry->bodies[cell->c->shape].marked(w);
		break;
	}
}

void run_bare(const struct cell *cell, struct work *w)
{
	if (cell->c->shape == SHAPE_VDSO)
		bare_vdso(w);
	else if (cell->c->shape == SHAPE_OWN)
		cell->c->run(w);
	else
		cell->entry->bodies[cell->c->shape].bare(w);
}

static int as_wanted(long want, long got)
{
	return want == ANY_RESULT ? got >= 0 : got == want;
}

int wrong_call(const struct probe_case *c, const struct work *w)
{
	if (!as_wanted(c->want_first, w->first.ret))
		return 1;
	if (c->shape != SHAPE_ONE && c->shape != SHAPE_VDSO &&
	    !as_wanted(c->want_second, w->second.ret))
		return 2;
	return 0;
}

/* A window with a use of the unit in it, which may trap, and the case's calls after it. */
static __attribute__((noinline)) int window_with_use(const struct cell *cell, struct work *w)
{
	int wrong = 0;

	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	cell->state->unit->use();
	for (long i = 0; i < cell->state->calls && !wrong; i++) {
		run_bare(cell, w);
		wrong = wrong_call(cell->c, w);
	}
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
	return wrong;
}

int uses_in_window(const struct cell *cell)
{
	return cell->state && cell->state->use == USE_EACH && cell->c->shape != SHAPE_MARKED;
}

/* One window; 0, or the number of the call that did not return what the case wants. */
static int run_window(const struct cell *cell, struct work *w)
{
	if (uses_in_window(cell))
		return window_with_use(cell, w);
	window(cell, w);
	return wrong_call(cell->c, w);
}

/* --- what is said ----------------------------------------------------- */

void report_absent_cell(const char *name, const char *reason)
{
	struct line line = console_line("absent ");

	put(&line, name);
	put(&line, " ");
	put(&line, reason);
	say(&line);
}

void report_absent(const struct pass *pass, const char *name, const char *reason)
{
	if (!pass->is_again)
		report_absent_cell(name, reason);
}

void report_failure(const char *name, const char *phase, long call, long result)
{
	struct line line = console_line("failed ");

	put(&line, name);
	put(&line, " phase=");
	put(&line, phase);
	put(&line, " call=");
	put_number(&line, call);
	put(&line, " result=");
	put_number(&line, result);
	say(&line);
}

/* Why the case is absent where a call, or its setup, returned `result`; null where it failed. */
static const char *why_lacking(const struct probe_case *c, long result, struct line *reason)
{
	static const long lacking[] = { ENOSYS, ENOENT,		 ENXIO,	       ENODEV, EINVAL,
					EACCES, EPROTONOSUPPORT, EAFNOSUPPORT, EPERM,  ENOTSUPP };
	int is_forbidden = result == -EPERM || result == -EACCES;

	if (result == -ENOSYS && !c->needs)
		return "the kernel has no such system call";
	for (unsigned long i = 0; i < ARRAY_SIZE(lacking) && c->needs; i++) {
		if (result != -lacking[i])
			continue;
		put(reason, is_forbidden ? "this process may not use " : "the kernel has no ");
		put(reason, c->needs);
		return reason->text;
	}
	return 0;
}

/* Says that the case is absent, or that it failed. */
static void report_error(const struct cell *cell, const char *phase, long call, long result)
{
	struct line line = { 0 };
	const char *reason = why_lacking(cell->c, result, &line);

	if (reason)
		report_absent_cell(cell->name, reason);
	else
		report_failure(cell->name, phase, call, result);
}

static void announce(const struct cell *cell, const char *phase)
{
	struct line line = { 0 };

	put(&line, "case ");
	put(&line, cell->name);
	put(&line, " ");
	put(&line, phase);
	put(&line, " ");
	if (cell->c->shape >= SHAPES_SPELT || uses_in_window(cell))
		put(&line, "?");
	else
		put_number(&line, cell->entry->bodies[cell->c->shape].user);
	if (cell->c->interrupts) {
		put(&line, " ");
		put_number(&line, cell->c->interrupts);
	}
	send(&line);
}

/* --- one case --------------------------------------------------------- */

/* `times` windows; 0, or -1 when a call did not return what the case wants. */
static int run_phase(const struct cell *cell, struct work *w, const struct pass *pass,
		     const char *phase, long times)
{
	announce(cell, phase);
	for (long i = 0; i < times; i++) {
		int wrong;

		if (cell->c->settles)
			sleep_to(REST_NS, pass->after);
		wrong = run_window(cell, w);
		if (wrong) {
			report_error(cell, phase, wrong, wrong == 1 ? w->first.ret : w->second.ret);
			return -1;
		}
	}
	return 0;
}

void close_files(void)
{
	for (long fd = FIRST_FREE_FD; fd < FIRST_FREE_FD + MOST_FDS; fd++)
		SYS(close, fd, 0, 0, 0);
}

static void fill(struct call *call, const struct call_spec *spec, const struct cell *cell)
{
	const struct entry *entry = cell->entry;

	call->nr = entry->compat ? spec->compat_nr : spec->nr;
	for (unsigned long i = 0; i < ARRAY_SIZE(call->args); i++)
		call->args[i] = spec->args[i];
	call->ret = 0;
}

long begin_cell(const struct cell *cell, struct work *w)
{
	const struct probe_case *c = cell->c;
	long err;

	*w = (struct work){ .state = cell->state };
	fill(&w->first, &c->first, cell);
	fill(&w->second, &c->second, cell);
	err = c->setup ? c->setup(w) : 0;
	if (err)
		report_error(cell, "setup", 0, err);
	return err;
}

void end_cell(const struct cell *cell, struct work *w)
{
	if (cell->c->finish)
		cell->c->finish(w);
}

/* --- the machine's own counter ---------------------------------------- */

/* How much it counts in a block.  noinline: what is around the calls is always the same. */
static __attribute__((noinline)) long count_block(void (*body)(struct work *), struct work *w)
{
	long begin = read_own_counter();

	for (long i = 0; i < CALLS_A_BLOCK; i++)
		body(w);
	return read_own_counter() - begin;
}

/* Blocks with the calls and without; 0, or -1 when a call did not return what the case wants. */
static int run_blocks(const struct cell *cell, struct work *w, const struct pass *pass)
{
	const struct body *body = &cell->entry->bodies[cell->c->shape];
	static long counts[MOST_BLOCKS][2] IN_PAGES;
	long blocks = pass->times < MOST_BLOCKS ? pass->times : MOST_BLOCKS;

	announce(cell, pass->phase);
	for (long i = 0; i < blocks; i++) {
		int wrong;

		counts[i][0] = count_block(body->marked, w);
		wrong = wrong_call(cell->c, w);
		if (wrong) {
			report_failure(cell->name, pass->phase, wrong,
				       wrong == 1 ? w->first.ret : w->second.ret);
			return -1;
		}
		counts[i][1] = count_block(body->skipped, w);
	}
	for (long i = 0; i < blocks; i++) {
		struct line line = console_line("block ");

		put(&line, cell->name);
		put(&line, " ");
		put_number(&line, CALLS_A_BLOCK);
		put(&line, " ");
		put_number(&line, counts[i][0]);
		put(&line, " ");
		put_number(&line, counts[i][1]);
		say(&line);
	}
	return 0;
}

int run_cell(const struct cell *cell, const struct pass *pass)
{
	const struct state *state = cell->state;
	int is_filled = state && state->use != USE_NEVER &&
			(state->use != USE_EACH || uses_in_window(cell));
	struct work w;
	long err = begin_cell(cell, &w);

	if (!err) {
		/*
		 * Time is counted in instructions, this program's among them: a case begins where
		 * it would after another program of as many.
		 */
		sleep_to(REST_NS, pass->after);
		if (uses_in_window(cell))
			state->unit->fill();
		use_before_windows(state);
		err = run_phase(cell, &w, pass, "warm", pass->warmup);
		if (!err && pass->in_blocks)
			err = run_blocks(cell, &w, pass);
		else if (!err)
			err = run_phase(cell, &w, pass, pass->phase, pass->times);
		if (!err && is_filled)
			check_registers(state, cell->name);
		end_cell(cell, &w);
		/* PID 1's time is the emulator's, and costs nothing. */
		if (cell->c->realtime && SYS(getpid, 0, 0, 0, 0) == 1)
			sleep_for(REALTIME_NS);
	}
	close_files();
	return err ? -1 : 0;
}
