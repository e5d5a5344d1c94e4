# SPDX-License-Identifier: GPL-2.0-or-later
"""Go's benchmark format (golang.org/design/14313-benchmark-format), which benchstat reads.

Each process is a line, a sample; an exact count is one, in a unit with assume=exact.  benchstat
makes a table for each value of a key, so what differs between kernels stands behind "#", which
readers skip.  Only a text of several recordings has a key "kernel", for benchstat -col kernel.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from kentry.arch import GOARCH
from kentry.results.caveats import some
from kentry.results.recording import CaseResult, Metric, Recording
from kentry.results.samples import value_of
from kentry.show.export.common import NAMED, Export, labels, numbered, printable, timed_metrics
from kentry.show.numbers import significant
from kentry.show.provenance import kernel_name

# Units of which a case's number is for one call.
_A_CALL = ("ns", "cycles", "instructions", "branches", "ticks")
_INSTRUCTIONS, _USER, _FIRMWARE = "instructions", "user_instructions", "firmware_instructions"


def benchfmt(recordings: Sequence[Recording]) -> Export:
    """Write the recordings as one text; with several, "kernel" is a key."""
    names = labels(recordings) if len(recordings) > 1 else [""] * len(recordings)
    # Once what a reader must know of each unit.
    cases = [case for recording in recordings for case in recording.cases]
    exact = dict.fromkeys(unit for case in cases for unit in _counts(case))
    lines = [f"Unit {unit} assume=exact better=lower" for unit in exact]
    noisy = [pair for case in cases for pair in timed_metrics(case).items()]
    for unit in dict.fromkeys(timed_unit(name, metric.unit) for name, metric in noisy):
        if unit.endswith(("/s", "/op")):
            lines.append(f"Unit {unit} better={'higher' if unit.endswith('/s') else 'lower'}")
    notes: list[str] = []
    for recording, name in zip(recordings, names, strict=True):
        lines += _lines(recording, name)
        if undecided := [
            case.name
            for case in recording.cases
            if _INSTRUCTIONS in case.metrics and not case.metrics[_INSTRUCTIONS].is_decided
        ]:
            why = "left out, less than half of the windows agree on a count"
            notes.append(f"{why}: {some(undecided, NAMED)}")
    return Export("\n".join(lines) + "\n", tuple(notes))


def _counts(case: CaseResult) -> dict[str, Metric]:
    """Return the counts that have a value, by their unit: per call, or per window of several calls.

    The probe's own instructions are there only if the kernel has none.  CSV has the other metrics.
    """
    kernel, firmware = case.metrics.get(_INSTRUCTIONS), case.metrics.get(_FIRMWARE)
    hidden = {
        _INSTRUCTIONS: False,
        _USER: kernel is not None and kernel.value > 0,
        _FIRMWARE: firmware is not None and not firmware.value,
    }
    per = "op" if case.parsed.calls == 1 else "window"
    return {
        f"{_word(name).replace(_INSTRUCTIONS, 'insns')}/{per}": count
        for name, count in case.metrics.items()
        if not hidden.get(name, True) and count.is_decided
    }


def timed_unit(metric: str, unit: str) -> str:
    """Return the unit of a number with noise: "ns/op", "p99-ns/op", "kernel-cycles/op", "ops/s"."""
    word, unit = _word(metric), _word(unit)
    if unit.endswith("/s"):
        return unit if metric.endswith("_per_s") else f"{word}-{unit}"
    own = word if word.endswith(unit) else f"{word}-{unit}"
    return f"{own}/op" if unit in _A_CALL else own


def _word(text: str) -> str:
    return re.sub(r"[\s_]+", "-", text)


def benchmark_names(cases: Iterable[str]) -> list[str]:
    """Name the benchmarks differently: `getppid@int80+vec=1/8` is Getppid/entry=int80/vec=1:8.

    "/" begins a key, and "-" could be taken for the one before GOMAXPROCS.
    """
    names = []
    for case in cases:
        base, *states = re.split(r"\+(?=[a-z]+[0-9]*=)", case)
        base, _, entry = base.partition("@")
        parts = [base[:1].upper() + base[1:], *([f"entry={entry}"] if entry else []), *states]
        fragments = (re.sub(r"[\s-]", "_", printable(part).replace("/", ":")) for part in parts)
        names.append("Benchmark" + "/".join(fragments))
    return numbered(names, "{}#{:02}")


def _lines(recording: Recording, label: str) -> Iterator[str]:
    kernel = recording.kernel
    yield f"# kernel: {kernel_name(kernel)}"
    for word, value in (
        ("build-id", kernel["build_id"]),
        ("config-sha256", kernel["config_sha256"]),
        ("toolchain", kernel["compiler"]),
        ("emulator", recording.target.get("emulator")),
        ("session", recording.timed_target.get("session")),
    ):
        if value:
            yield f"# {word}: {value}"
    metrics = [metric for case in recording.cases for metric in timed_metrics(case).values()]
    for text in dict.fromkeys(metric.estimator for metric in metrics if metric.estimator):
        yield f"# value: {text}"
    if label:
        yield f"kernel: {label}"
    yield "goos: linux"
    yield f"goarch: {GOARCH.get(kernel['arch'], kernel['arch'])}"
    counts, times = [], []
    names = benchmark_names(case.name for case in recording.cases)
    for name, case in zip(names, recording.cases, strict=True):
        if own := _counts(case):
            cells = " ".join(f"{count.value} {unit}" for unit, count in own.items())
            counts.append(f"{name} {max(count.windows for count in own.values())} {cells}")
        for metric, timed in timed_metrics(case).items():
            unit = timed_unit(metric, timed.unit)
            if not timed.samples:
                times.append(f"{name} 1 {significant(timed.value)} {unit}")
            for process in timed.samples:
                calls = process.calls * len(process.values)
                times.append(f"{name} {calls} {significant(value_of(process))} {unit}")
    for lines, target in ((counts, recording.target), (times, recording.timed_target)):
        if lines:
            # "cpu" of a real machine is a number.
            model = target.get("cpu_model") or target.get("cpu", "")
            yield f"cpu: {model if isinstance(model, str) else ''}".rstrip()
            yield from lines
