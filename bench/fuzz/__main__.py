# SPDX-License-Identifier: GPL-2.0-or-later
"""make fuzz: millions of inputs that nobody meant, for all that reads what others wrote.

The C of the plugins and of the probe, compiled for this machine with sanitizers, is driven by
libFuzzer; so are the readers in Python, by atheris; kentry's command line gets documents and words
from a seed.  Each has the same time.  What libFuzzer keeps is in build/fuzz/corpus, where the next
run begins; a finding is a file in build/fuzz/findings.
Usage: python -m bench.fuzz [--seconds EACH] [--seed N] [NAME...]
       python -m bench.fuzz --replay NAME FILE
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

from bench import tried
from bench.fuzz.readers import READERS, read_in_full
from kentry.boot.plugin_trace import parse_trace
from kentry.count.workload import read_counts
from kentry.errors import TraceError
from kentry.vector.tracing import read_records, read_task_table

SANITIZED = (
    *("clang-19", "-std=gnu11", "-g", "-O1", "-fno-sanitize-recover=all"),
    "-fsanitize=fuzzer,address,undefined",
)
# What each is made of, in bench/fuzz, plugin and guest; and what else the compiler is to know.
PROGRAMS = {
    "windows": ("windows.c", "plugin/accesses.c", "plugin/isa.c"),
    "tasks": ("tasks.c", "plugin/isa.c"),
    "probe": ("probe.c", "guest/*.c", "guest/cases/*.c"),
}
PROBE_FLAGS = (
    *("-DKENTRY_START_H", "-fsanitize-ignorelist=bench/fuzz/ignored.txt"),
    *("-Iguest", "-Iguest/arch/x86_64", "-Wl,-T,bench/fuzz/probe.lds"),
)
# Another program's, or what a libc has here, or a part of probe.c there.
NOT_THE_PROBE = {"memory.c", "costs.c", "runner.c", "probe.c", "slots.c"}
COMMANDS = "commands"
NAMES = (*PROGRAMS, *READERS, COMMANDS)
KEPT = ROOT / "build" / "fuzz"
# Of an input: seconds, MiB of memory, bytes.
LIMITS = ("-timeout=30", "-rss_limit_mb=3072", "-max_len=65536")
# Inputs of the command line that one process tries: each takes some milliseconds.
AT_ONCE = 200


@dataclass(frozen=True)
class Result:
    """What a fuzzer did: how many inputs, in how many seconds, and what it found."""

    name: str
    inputs: int
    seconds: float
    kept: int
    finding: str = ""

    def row(self) -> str:
        rate = self.inputs / max(self.seconds, 1)
        found = f"  {self.finding}" if self.finding else ""
        return f"{self.name:<12} {self.inputs:>10,} {rate:>9,.0f} {self.kept:>7,}{found}"


def compile_programs(folder: Path, root: Path = ROOT) -> None:
    """Compiles the C of the checkout `root` with its sanitizers into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (harness, *patterns) in PROGRAMS.items():
        sources = [str(file) for pattern in patterns for file in sorted(root.glob(pattern))]
        if name == "probe":
            sources = [file for file in sources if Path(file).name not in NOT_THE_PROBE]
        flags = PROBE_FLAGS if name == "probe" else ()
        argv = [*SANITIZED, *flags, f"bench/fuzz/{harness}", *sources, "-o", str(folder / name)]
        subprocess.run(argv, cwd=root, check=True)


def corpus_of(name: str) -> Path:
    """The folder of what was kept, with the seeds."""
    folder = KEPT / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    seeds = READERS[name][1]() if name in READERS else ()
    for content in (*seeds, *(file.read_bytes() for file in kept_findings(name))):
        (folder / hashlib.sha1(content).hexdigest()).write_bytes(content)
    return folder


def kept_findings(name: str) -> list[Path]:
    """Inputs of this one that were findings once, and are tests now."""
    return sorted((Path(__file__).parent / "findings").glob(f"{name}-*"))


def command(name: str, folder: Path) -> list[str]:
    """What starts the fuzzer."""
    if name in PROGRAMS:
        return [str(folder / name)]
    return [sys.executable, "-m", "bench.fuzz.readers", name]


def fuzz(name: str, seconds: int, seed: int, folder: Path) -> Result:
    """Runs one fuzzer for some seconds."""
    if name == COMMANDS:
        return try_commands(seconds, seed)
    corpus, began = corpus_of(name), time.monotonic()
    findings = KEPT / "findings"
    findings.mkdir(exist_ok=True)
    options = (f"-max_total_time={seconds}", f"-seed={seed}")
    place = f"-artifact_prefix={findings}/{name}-"
    done, said = run([*command(name, folder), *options, place, *LIMITS, str(corpus)])
    inputs = re.findall(r"(?:Done |#)(\d+)", said) or ["0"]
    finding = ""
    if done:
        written = re.search(r"Test unit written to (\S+)", said)
        finding = f"--replay {name} {written[1] if written else ''}: {said[-600:]}"
    took = time.monotonic() - began
    return Result(name, int(inputs[-1]), took, len(list(corpus.iterdir())), finding)


def run(argv: list[str], **more: str) -> tuple[int, str]:
    """The exit code and what a fuzzer said, with a folder in memory for its files."""
    with tempfile.TemporaryDirectory(prefix="kentry-fuzz-", dir="/dev/shm") as own:
        # What a plugin asks of QEMU at a translation lives as long as QEMU.
        environment = {"KENTRY_FUZZ_FOLDER": own, "ASAN_OPTIONS": "detect_leaks=0", **more}
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode, done.stdout.decode(errors="replace")


def try_commands(seconds: int, seed: int) -> Result:
    """Runs kentry's command line on one input after the other."""
    began, first, finding = time.monotonic(), 0, ""
    while time.monotonic() - began < seconds and not finding:
        words = [sys.executable, "-m", "bench.fuzz.commands", str(seed), str(first), str(AT_ONCE)]
        code, said = run(words)
        finding = said if code else ""
        first += AT_ONCE
    return Result(COMMANDS, first, time.monotonic() - began, 0, finding)


def read_what_was_written(folder: Path) -> str:
    """Reads what the plugins write for each kept input; returns how many files that were."""
    counts = dict.fromkeys(("traces", "traces with a message of the guest's", "counts"), 0)
    with tempfile.TemporaryDirectory(prefix="kentry-fuzz-", dir="/dev/shm") as own:
        for name in ("windows", "tasks"):
            code, said = run(
                [*command(name, folder), "-runs=0", str(corpus_of(name))],
                KENTRY_FUZZ_FOLDER=own,
                KENTRY_FUZZ_KEEP="1",
            )
            if code:
                raise RuntimeError(said[-600:])
        for file in sorted(Path(own).iterdir()):
            if file.suffix == ".trace":
                counts[of_trace(file)] += 1
            # Empty where the guest put no mark.
            elif file.suffix == ".counts" and file.stat().st_size:
                read_counts(file)
                read_task_table(file.with_suffix(".events.tasks"))
                read_in_full(read_records(file.with_suffix(".events")))
                counts["counts"] += 1
    return ", ".join(f"{number} {what}" for what, number in counts.items())


def of_trace(file: Path) -> str:
    """Reads a trace; it may be refused if the guest said more than which case it is."""
    try:
        parse_trace(file)
    except TraceError:
        if file.read_bytes().count(b"\nmessage ") < 2:
            raise
        return "traces with a message of the guest's"
    return "traces"


def main() -> int:
    """Prints a row for each fuzzer; 1 where one found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--replay", nargs=2, metavar=("NAME", "FILE"))
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], default=[])
    options = parser.parse_args()
    programs = KEPT / "programs"
    shutil.rmtree(programs, ignore_errors=True)
    compile_programs(programs)
    if options.replay:
        name, file = options.replay
        code, said = run([*command(name, programs), file])
        print(said)
        return int(bool(code))
    names = options.names or NAMES
    print(f"{tried()}, seed {options.seed}")
    print(f"{'':<12} {'inputs':>10} {'a second':>9} {'kept':>7}", flush=True)
    results = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(fuzz, name, options.seconds, options.seed, programs) for name in names]
        for job in jobs:
            results.append(job.result())
            print(results[-1].row(), flush=True)
    if {"windows", "tasks"} <= set(names):
        print(f"read again: {read_what_was_written(programs)}")
    found = sum(bool(result.finding) for result in results)
    print(f"{sum(result.inputs for result in results):,} inputs, {found} findings")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
