# SPDX-License-Identifier: GPL-2.0-or-later
"""Go's benchmark format (golang.org/design/14313-benchmark-format), which benchstat reads.

A process is a line, so that benchstat has samples; an exact count is one line, in a unit that is
said to be exact.  What is the same for two kernels on one machine is a "key: value" line.  What
tells kernels apart stands behind "#", which readers skip: benchstat makes a table of its own for
each value of a key, and would put two kernels into two tables instead of beside each other.  Only
where several recordings are one text is "kernel" a key, for benchstat -col kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kentry.arch import GOARCH
from kentry.compare.groups import process_values
from kentry.model.case_name import CaseName
from kentry.model.recording import CaseResult, Metric, Recording, TimedProcess
from kentry.report.export.common import (
    Export,
    kernel_text,
    labels,
    left_out,
    numbered,
    printable,
    significant,
    timed_metrics,
)
from kentry.stats import exact

NAME = "benchfmt"

# Units of which a case's number is for one call.
_A_CALL = ("ns", "cycles", "instructions", "branches", "ticks")
_INSTRUCTIONS, _USER = "instructions", "user_instructions"
_FIRMWARE = "firmware_instructions"


def export(recordings: Sequence[Recording]) -> Export:
    """The recordings as one text; with several, "kernel" is a key."""
    names = labels(recordings) if len(recordings) > 1 else [""] * len(recordings)
    lines = list(_unit_lines(recordings))
    notes: list[str] = []
    for recording, name in zip(recordings, names, strict=True):
        lines += _lines(recording, name)
        undecided = [case.name for case in recording.cases if _undecided(case)]
        notes += left_out(undecided, "less than half of the windows agree on a count")
    return Export("\n".join(lines) + "\n", tuple(notes))


# --- units ---------------------------------------------------------------


def _unit_lines(recordings: Sequence[Recording]) -> Iterator[str]:
    """What a reader must know of each unit, once."""
    counts = (_counts(one) for recording in recordings for one in recording.cases)
    for unit in dict.fromkeys(unit for units in counts for unit in units):
        yield f"Unit {unit} assume=exact better=lower"
    for unit in dict.fromkeys(
        timed_unit(metric, one.unit)
        for recording in recordings
        for case in recording.cases
        for metric, one in timed_metrics(case).items()
    ):
        if unit.endswith("/s"):
            yield f"Unit {unit} better=higher"
        elif unit.endswith("/op"):
            yield f"Unit {unit} better=lower"


def _counts(case: CaseResult) -> dict[str, Metric]:
    """The counts that have a value, by their unit, which is of a call or of a window of several.

    The probe's own instructions are all there is where there are none of the kernel; firmware
    is there on riscv64 alone.
    """
    kernel = case.metrics.get(_INSTRUCTIONS)
    shown = {
        _INSTRUCTIONS: True,
        _USER: kernel is None or not kernel.value,
        _FIRMWARE: _FIRMWARE in case.metrics and case.metrics[_FIRMWARE].value > 0,
    }
    per = "op" if CaseName.parse(case.name).calls == 1 else "window"
    return {
        f"{_word(name).replace(_INSTRUCTIONS, 'insns')}/{per}": one
        for name, one in case.metrics.items()
        if shown.get(name, True) and exact.is_decided(dict(one.samples))
    }


def timed_unit(metric: str, unit: str) -> str:
    """The unit of a number with noise: "ns/op", "p99-ns/op", "kernel-cycles/op", "ops/s"."""
    word, unit = _word(metric), _word(unit)
    if unit.endswith("/s"):
        return unit if metric.endswith("_per_s") else f"{word}-{unit}"
    own = word if word.endswith(unit) else f"{word}-{unit}"
    return f"{own}/op" if unit in _A_CALL else own


def _word(text: str) -> str:
    """Text as a unit: no space, and "-" between its parts."""
    return re.sub(r"[\s_]+", "-", text)


# --- names ---------------------------------------------------------------


def benchmark_names(cases: Iterable[str]) -> list[str]:
    """A benchmark's name for each case, no two alike; a second one has "#02" behind it."""
    return numbered(map(_benchmark_name, cases), lambda name, number: f"{name}#{number:02}")


def _benchmark_name(case: str) -> str:
    """`getppid@int80+vec=1/8` is BenchmarkGetppid/entry=int80/vec=1:8.

    A "-" could be taken for the one before GOMAXPROCS at a name's end, a "/" begins another key.
    """
    base, *states = re.split(r"\+(?=[a-z]+[0-9]*=)", case)
    base, _, entry = base.partition("@")
    parts = [base[:1].upper() + base[1:]]
    parts += [f"entry={entry}"] if entry else []
    return "Benchmark" + "/".join(_name_part(part) for part in (*parts, *states))


def _name_part(text: str) -> str:
    return re.sub(r"[\s-]", "_", printable(text).replace("/", ":"))


# --- lines ---------------------------------------------------------------


def _lines(recording: Recording, label: str) -> Iterator[str]:
    """One recording: its counts and where they are from, then its times."""
    yield from _comments(recording)
    if label:
        yield f"kernel: {label}"
    yield "goos: linux"
    yield f"goarch: {GOARCH.get(recording.kernel['arch'], recording.kernel['arch'])}"
    names = benchmark_names(case.name for case in recording.cases)
    pairs = list(zip(names, recording.cases, strict=True))
    counts = [line for name, case in pairs for line in _count_lines(name, case)]
    times = [line for name, case in pairs for line in _timed_lines(name, case)]
    if counts:
        yield f"cpu: {_cpu(recording.target)}".rstrip()
        yield from counts
    if times:
        yield f"cpu: {_cpu(recording.timed_target)}".rstrip()
        yield from times


def _comments(recording: Recording) -> Iterator[str]:
    """What tells one kernel from another, and one run from another."""
    kernel, target = recording.kernel, recording.timed_target
    yield f"# kernel: {kernel_text(kernel)}"
    for word, value in (
        ("build-id", kernel["build_id"]),
        ("config-sha256", kernel["config_sha256"]),
        ("toolchain", kernel["compiler"]),
        ("emulator", recording.target.get("emulator")),
        ("session", target.get("session")),
    ):
        if value:
            yield f"# {word}: {value}"
    for text in dict.fromkeys(
        one.estimator
        for case in recording.cases
        for one in timed_metrics(case).values()
        if one.estimator
    ):
        yield f"# value: {text}"


def _cpu(target: dict[str, object]) -> str:
    """The cpu's model; "cpu" is a number where it is a real machine's."""
    model = target.get("cpu_model") or target.get("cpu", "")
    return model if isinstance(model, str) else ""


def _undecided(case: CaseResult) -> bool:
    count = case.metrics.get(_INSTRUCTIONS)
    return count is not None and not exact.is_decided(dict(count.samples))


def _count_lines(name: str, case: CaseResult) -> Iterator[str]:
    """One line with every count, behind how many windows there were."""
    counts = _counts(case)
    if counts:
        cells = " ".join(f"{one.value} {unit}" for unit, one in counts.items())
        yield f"{name} {max(map(_windows, counts.values()))} {cells}"


def _windows(metric: Metric) -> int:
    return sum(times for _, times in metric.samples)


def _timed_lines(name: str, case: CaseResult) -> Iterator[str]:
    """A line a process: how many calls it made, and its number."""
    for metric, one in timed_metrics(case).items():
        unit = timed_unit(metric, one.unit)
        if not one.samples:
            yield f"{name} 1 {significant(one.value)} {unit}"
        for process, value in zip(one.samples, process_values(one.samples), strict=True):
            yield f"{name} {_calls(process)} {significant(value)} {unit}"


def _calls(process: TimedProcess) -> int:
    return process.calls * len(process.values)
