# SPDX-License-Identifier: GPL-2.0-or-later
"""Every caveat, what a reader must know beside a number: a kind and a sentence, in JSON too."""

from collections.abc import Iterable
from typing import NamedTuple, TypedDict

# How many cases a sentence names.
_NAMED = 4


class Caveat(TypedDict):
    """A kind, by which programs know it, and a sentence."""

    kind: str
    text: str


class Template(NamedTuple):
    """A caveat's kind and sentence; each {} stands for a value, which the caller gives."""

    kind: str
    sentence: str

    def __call__(self, *values: object) -> Caveat:
        """The caveat with `values` put into its sentence; IndexError where one is missing."""
        return {"kind": self.kind, "text": self.sentence.format(*values)}


# --- counts --------------------------------------------------------------

not_time = Template("not-time", "exact instruction counts under emulation; not time")
modelled = Template(
    "modelled",
    "cycles are estimates by LLVM {}'s scheduling models, not measurements: all branches are"
    " predicted, code and data are in the first cache, stores delay no loads; of {} kernel routines"
    " timed on a {} the model's error was {:.0f} % in the median and {:.0f} % at most",
)
other_processor = Template(
    "other-processor",
    "the path was recorded on {}, and on {} the kernel may execute another one: cycles and misses"
    " are of the path as recorded",
)
modelled_caches = Template(
    "modelled-caches",
    "misses are by a model, not measured: the line used longest ago is replaced, pages have 4 KiB,"
    " nothing is prefetched, and nothing else runs on the core",
)
unknown_caches = Template("unknown-caches", "no misses of {}: kentry knows only the caches of {}")
no_accesses = Template(
    "no-accesses",
    "{}: what the path loads and stores was not recorded, so its misses are not known; record it"
    " again",
)
# The kernel has debug info that was not read.
no_source_lines = Template("no-source-lines", "instructions have no lines of source: {}")
no_tables = Template(
    "no-tables", "which instructions the kernel patches is not in the recording: {}"
)
one_of_several_paths = Template(
    "one-of-several-paths",
    "{} depends on the context: its paths here are the commonest ones, of {} and {} instructions;"
    " the change that kentry diff prints is of all contexts",
)
one_instruction_a_nanosecond = Template(
    "emulated-clock", "times are of the guest's clock: 1 ns per instruction, without sleep"
)
open_loop = Template(
    "open-loop",
    "replay keeps the trace's times; under a cheaper policy later events would come earlier",
)
other_length = Template(
    "other-length", "the costs of {} are of vectors of {} bits, the trace's are of {} bits"
)
private_emulator = Template(
    "private-emulator",
    "measured with kentry's own copy of the emulator, {}: plugins cannot read registers"
    " in the installed one",
)
lacking = Template("lacking", "emulated {}: {}")
newer_emulator = Template(
    "private-emulator",
    "measured with kentry's own copy of the emulator, {}: the installed one has no {}",
)
missed_returns = Template(
    "missed-returns",
    "{} returns to user mode were seen late: up to there user instructions count as the kernel's",
)
stopped_early = Template(
    "stopped-early",
    "counting did not get to the program's end, because {}; the rows are of what ran",
)
randomised = Template("randomised", "KASLR and stack-offset randomisation were on")
steady = Template("steady", "KASLR and stack-offset randomisation were off")
archive_incomplete = Template(
    "archive-incomplete",
    "part of the archive's lists could not be read: {} may have a newer version",
)
case_failed = Template("case-failed", "{} was not measured: {}")
# By the instruction sets' manuals these access memory, and the emulator calls no plugin for it.
unreported_accesses = Template(
    "unreported-accesses",
    "{}: memory metrics are too low, because the emulator does not report the accesses of {}",
)
case_absent = Template("case-absent", "{} is absent: {}")
# How many registers; a byte of one, what it is, WRITTEN or nothing, what it must be.
wrong_registers = Template(
    "wrong-registers",
    "{} leaves {} vector registers as a system call must not leave them: byte {} of {} is"
    " {:#04x}{}, not {:#04x}",
)
WRITTEN = ", as the program left it"
# User code other than the probe's ran between the marks of these windows.
user_side = Template(
    "user-side", "{2} windows of {0} were dropped: they did not execute {1} user instructions"
)
no_majority = Template("no-majority", "only {1:.0%} of the windows of {0} have its commonest count")
unrecorded_path = Template("unrecorded-path", "no path of {1} instructions was recorded for {0}")
unnamed = Template("unnamed", "{:.1%} of the instructions carry no function name")
by_body = Template(
    "by-body",
    "functions that were renamed or split are recognised by name or instructions; so are inlined"
    " ones if a kernel has no debug info",
)
unsettled = Template(
    "unsettled",
    "no count of {} holds in most windows and contexts, so it is undecided",
)
change_by_context = Template(
    "change-by-context", "the change of {} depends on the context: from {:+d} to {:+d}"
)
sum_of_contexts = Template(
    "sum-of-contexts",
    "{} of {} is a sum: the old count and the change of each function; no context has this count",
)
functions_of_context = Template(
    "functions-of-context",
    "functions of {} are of a context with {} in the old kernel: no path of {} was recorded",
)
one_context = Template(
    "one-context",
    "{} can depend on the context (free memory, hash chains, clock), and one side was measured in"
    " one context only; kentry record measures it in several",
)
one_boot = Template("one-boot", "the second boot failed, so the contexts are of one boot: {}")
one_boot_a_side = Template(
    "one-boot",
    "one boot a side: what depends on the boot cannot be told from what the kernel changed",
)
one_boot_of = Template(
    "case-one-boot", "{} failed in the second boot, so its contexts are of one boot: {}"
)
kind_undecided = Template("undecided-kind", "{} is undecided: {}")
kinds_undecided = Template("undecided-kind", "kinds that a row cannot decide have no column: {}")
windows_lost = Template("windows-lost", "{} has {} windows of {}")
self_checked = Template("self-checked", "two ways of counting agreed in all {} windows")
no_counter = Template(
    "no-counter", "not checked by the machine's own counter, {}, which does not count here ({})"
)

# --- two sides, and series ------------------------------------------------

differs = Template("differs", "{} differs: {} / {}")
unknown_instruments = Template(
    "differs", "the {} recording does not say which probe and plugin made it"
)
only_in = Template("only-in", "{1} was measured only in the {0} recording")
config_unknown = Template("config-unknown", "{} config is not known, so it may differ")
# Of kernels in order: what differs, and the kernels that have it unlike the one before.
differs_from_before = Template(
    "differs", "{} differs from the kernel before it at {}: kentry diff says how"
)
series_note = Template("series", "{}")
other_base = Template("other-base", "the patches name base-commit {:.12}; measured on {}")
measured_apart = Template(
    "measured-apart",
    "the times were measured apart, one run after the other, so the machine's drift is in their"
    " difference and nothing is decided; kentry stat --compare measures both interleaved",
)
no_statistics = Template(
    "unsupported", "{1} of {0} has values not above 0, so no change can be calculated"
)
# Patches that later ones are measured without; their numbers.
left_out = Template("left-out", "what follows is measured without patch {}: not applied")
unsupported = Template("unsupported", "{}: {} was imported without {}: it is shown, but undecided")
kernel_unknown = Template(
    "kernel-unknown",
    "the build ID is not known of the {}, so counts and times may be of different kernels",
)
sign_conflict = Template(
    "sign-conflict", "{}: instructions {}, {} {}: opposite directions; report both"
)
# With the option every function begins on a cache line of its own.
layout = Template(
    "layout",
    "{}: the path is identical, instruction by instruction, and {} differs by {}: layout or noise,"
    " not the code executed; to test it, build both with --config"
    " CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_64B=y",
)

# --- commits -------------------------------------------------------------

more_remains = Template(
    "more-remains", "the commit explains {} of {}: others changed the count too; --all finds them"
)
others_remain = Template(
    "more-remains",
    "the commits explain {} of {}: the rest is of smaller changes, or of"
    " commits that could not be measured",
)
between_equal_ends = Template(
    "not-measured",
    "commits between two of the same count were not measured; --every 1 measures them",
)
noise = Template(
    "noise", "the values have noise: compare the commit with its parent once more, interleaved"
)
unconfirmed = Template("unconfirmed", "{} adds {} in the search, but {} when measured again")
ends_undecided = Template(
    "undecided", "whether good and bad differ cannot be told: {} is undecided between them"
)
undecided_between = Template("undecided", "whether {} and {} differ cannot be told")
no_step_so_large = Template("no-step", "no single commit changed the count by {} or more")
doubt_files = Template("doubt", "{} changes only {}, yet the path differs: see its functions")
doubt_comments = Template(
    "doubt", "{} changes only comments, yet its path differs: __LINE__ and the like move code"
)
doubt_merge = Template(
    "doubt", "{} is a merge, and no branch of it has the change: the two sides make it together"
)
doubt_first_parent = Template(
    "doubt", "{} is a merge, and its branches were not searched (--first-parent)"
)
doubt_branch = Template("doubt", "{} is a merge, and a branch of it could not be measured")
no_difference = Template("no-difference", "{}")
not_verified = Template(
    "not-verified",
    "the commits named were not built from nothing and measured a second time (--no-verify)",
)
good_is_aside = Template(
    "aside", "{} is no ancestor of {}: the search began at their merge base, {}"
)


def unique(notes: Iterable[Caveat]) -> list[Caveat]:
    """Returns the caveats in their order, each once."""
    return list({(caveat["kind"], caveat["text"]): caveat for caveat in notes}.values())


def of_side(side: str, caveat: Caveat) -> Caveat:
    """Returns a caveat of one of two recordings."""
    return {"kind": caveat["kind"], "text": f"{side}: {caveat['text']}"}


CONFIG = "config-differs"
# The kinds by which a comparison says what differs besides what was measured.
DIFFERENCES = (differs.kind, CONFIG)
# What begins the part of that note which names options.
OF_ENTRY = "; of kernel entry: "
config_differs = Template(CONFIG, "config differs in {}: {}{}")
metric_only_in = Template("only-in", "{1} was measured only in the {0} recording: {2}")
unchecked = Template("unchecked", "not checked by the machine's own counter: {}")


def amount(count: int, noun: str) -> str:
    """Returns a number of things: "1 case", "2 cases"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def some(names: list[str], most: int = _NAMED) -> str:
    """Returns the first names, `most` at most, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# --- imports --------------------------------------------------------------

imported = Template(
    "imported", "published in {}, not measured by kentry: no interval, so no verdict"
)
imported_numbers = Template(
    "no-interval",
    "the numbers have no interval, the sides were not interleaved, and kernel, config and"
    " compiler are not known: a change of a few per cent may be noise, and no verdict follows",
)
imported_ticks = Template(
    "ticks", "the timer's frequency is not known, so ticks are not converted to ns"
)
imported_percentages = Template(
    "only-percent", "a percentage without its two values cannot be checked"
)

# --- time ----------------------------------------------------------------

emulated_time = Template(
    "emulated-time", "times and ratios from software emulation say nothing about real hardware"
)
few_counters = Template("no-counters", "only {} could be counted: see kernel.perf_event_paranoid")
multiplexed = Template("multiplexed", "{} left out: the cpu has too few counters")
clock_jumped = Template("clock-jumped", "processes were dropped {} times: {}")
coarse_clock = Template(
    "coarse-clock",
    "the clock has steps of {:g} ns: the time of one call is a whole number of steps, and so are"
    " percentiles",
)
slow_clock = Template(
    "slow-clock", "the vDSO has no clock here: each reading of the time is a system call"
)
one_cpu = Template("one-cpu", "one cpu only: all other work interrupts the measurement")


def no_counters(errno: str) -> Caveat:
    """The probe could not open the cpu's counters: perf_event_open() returned `errno`."""
    why = (
        "this machine's cpu shows no counters (most virtual machines); kentry record counts"
        " instructions without any"
    )
    if errno in ("-1", "-13"):  # EPERM, EACCES
        why = "perf_event_open is not permitted; sysctl kernel.perf_event_paranoid=1 lets the"
        why += " probe count"
    elif errno in ("-9", "-24"):  # EBADF, EMFILE
        why = "too few file descriptors; ulimit -n 1024"
    return {"kind": "no-counters", "text": f"no cycles, instructions or branches: {why}"}
