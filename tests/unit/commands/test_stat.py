# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry stat from its arguments on: on a machine that takes no time, and once each for real."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import host_arch
from kentry.cli import main
from kentry.commands.stat import Options
from kentry.machines.machine import Machine, MachineOptions
from kentry.machines.open import open_machine
from kentry.results.recording import read_recording
from kentry.time import preflight
from tests.builders import validate
from tests.places import BLOCK_CALLS, COUNTERS, FakePlace

NS = {"getppid": 80.0, "getpid": 80.8, "invalid": 60.0, "read": 120.0}


@dataclass
class Stat:
    """kentry stat on one machine, whatever it is told."""

    capsys: pytest.CaptureFixture[str]
    place: FakePlace | None = None

    def on(self, ns: dict[str, float] = NS, **more: Any) -> FakePlace:
        """Has every place be this one."""
        self.place = FakePlace(ns, **more)
        return self.place

    def text(self, *words: str, code: int = 0) -> str:
        fake = ["ssh:bench"] if self.place else []
        assert main(["stat", "-q", *fake, *words]) == code, self.capsys.readouterr().err
        out = self.capsys.readouterr().out
        assert out.isascii()
        return out

    def document(self, kind: str, *words: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.text(*words, "--json"))
        validate(document, f"{kind}-1")
        return document


@pytest.fixture(autouse=True)
def stat(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stat:
    stat = Stat(capsys)

    def open_it(text: str, options: MachineOptions) -> AbstractContextManager[Machine]:
        return closing(stat.place) if stat.place else open_machine(text, options)

    monkeypatch.setattr("kentry.commands.stat.open_machine", open_it)
    # What changes on the machine is read at once.
    monkeypatch.setattr(preflight, "BETWEEN", 0.0)
    return stat


# --- a table -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words", "machine"),
    [
        ("stat", "--for 6 --case getppid,read,first-use+vec=each", {}),
        ("stat-sweep", "--case read --working-set 64K,32K --for 4", {}),
        ("stat-tails", "--tails --case getppid,read", {"counters": "none:-13"}),
        ("stat-pairs", "--compare getppid getpid --compare read read --for 60", {}),
        ("stat-undecided", "--compare getppid getpid --for 30", {"spread": 0.05}),
    ],
)
def test_each_report_is_its_golden_file(
    name: str, words: str, machine: Any, stat: Stat, golden: Callable[[str, str], None]
) -> None:
    ns = {**NS, "read+cache=32K": 150.0, "read+cache=64K": 240.0, "read+cache=32K:code": 180.0}
    absent = {
        "first-use+vec=each": "it has no time of its own",
        "read+cache=64K:code": "a program may not run code here that it has written",
    }
    stat.on(ns, absent=absent, **machine)
    golden(f"{name}.txt", stat.text(*words.split(), code=3 if "spread" in machine else 0))


def test_a_table_as_json_is_a_recording(stat: Stat) -> None:
    place, file = stat.on(), Path("it.json")
    words = ("--for", "6", "--pin", "3", "--case", "getppid,read", "-o", str(file))
    table = stat.document("recording", *words)
    assert place.groups == 6 and place.closed
    # Two slots a case, to compare it with itself.
    assert "cases=getppid,read,getppid,read" in place.runs[0]
    assert [case["name"] for case in table["cases"]] == ["getppid", "read"]
    # Also where nobody looked at the machine: the probe says the cpu.
    assert (table["target"]["kind"], table["target"]["on_cpu"]) == ("ssh", 3)
    metric = table["cases"][0]["metrics"]["ns"]
    assert metric["assume"] == "noisy" and len(metric["samples"]) == 12
    assert {sample["calls"] for sample in metric["samples"]} == {BLOCK_CALLS}
    assert json.loads(file.read_text()) == table
    assert len(read_recording(file).cases) == 2


@pytest.mark.parametrize(
    ("counters", "jumps", "kinds"),
    [
        ("none:-13", {1}, {"no-counters": "perf_event_paranoid", "clock-jumped": "1.000 s"}),
        ("none:-9", (), {"no-counters": "ulimit -n 1024"}),
        ("none:-2", (), {"no-counters": "kentry record"}),
        ("user-cycles", (), {"no-counters": "user-cycles"}),
        (COUNTERS, (), {}),
    ],
)
def test_what_the_probe_cannot_do_is_a_caveat(
    counters: str, jumps: Collection[int], kinds: dict[str, str], stat: Stat
) -> None:
    stat.on(counters=counters, jumps=frozenset(jumps))
    table = stat.document("recording", "--for", "6", "--case", "read")
    caveats = {caveat["kind"]: caveat["text"] for caveat in table["caveats"]}
    assert caveats.keys() == kinds.keys()
    assert all(text in caveats[kind] for kind, text in kinds.items())


def test_tails_as_json_have_percentiles(stat: Stat) -> None:
    stat.on()
    tails = stat.document("recording", "--tails", "--case", "getppid", "--for", "2")
    assert tails["options"] == {"calls": 200_000}
    metrics = tails["cases"][0]["metrics"]
    values = {"p50_ns": 80, "p99_ns": 80, "p99.9_ns": 320, "max_ns": 80_000}
    assert {name: metric["value"] for name, metric in metrics.items()} == values


# --- comparisons ---------------------------------------------------------------------


def test_two_cases_as_json_are_a_comparison(stat: Stat) -> None:
    stat.on()
    words = "--compare getppid getpid --compare read invalid --for 60 -o it.json"
    rows = stat.document("comparison", *words.split())["cases"]
    assert [row["name"] for row in rows] == ["getppid -> getpid", "read -> invalid"]
    assert [row["verdict"] for row in rows] == ["worse", "better"]
    assert rows[1]["percent_of_old"] == pytest.approx(-50, abs=1)
    assert rows[1]["interval"][0] < -50 < rows[1]["interval"][1]
    assert rows[1]["old"] == pytest.approx(120, rel=0.01)
    recording = read_recording(Path("it.json"))
    assert [case.name for case in recording.cases] == ["getppid", "getpid", "read", "invalid"]
    assert recording.options["looks"] == 5


KERNELS = ("--compare", "6.1", "6.12", "--case", "read")


def test_undecided_kernels_are_code_3(stat: Stat) -> None:
    stat.on(kernels={"6.12": 1.01}, boot_spread=0.05)
    stat.text(*KERNELS, "--for", "6", code=3)


@pytest.mark.slow
def test_two_kernels_are_booted_interleaved(stat: Stat) -> None:
    place = stat.on(kernels={"6.12": 1.05}, boot_spread=0.002)
    comparison = stat.document("comparison", *KERNELS, "--for", "6", "-o", "k.json")
    assert set(place.booted) == {"6.1", "6.12"} and len(place.booted) == 24
    times = next(row for row in comparison["cases"] if row["metric"] == "ns")
    assert times["verdict"] == "worse" and times["paired"]
    assert times["interval"][0] < 5 < times["interval"][1]
    for file in (Path("k.old.json"), Path("k.new.json")):
        validate(json.loads(file.read_text()), "recording-1")
        samples = read_recording(file).cases[0].noisy["ns"].samples
        assert len({sample.boot for sample in samples}) == 12


# --- what ends early ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ({"dies_in": 1}, ["--for", "9", "--case", "read"]),
        ({"dies_in": 1}, ["--for", "9", "--case", "read", "--working-set", "64K"]),
        ({"dies_in": 1}, ["--compare", "read", "getpid", "--for", "40"]),
        ({"refuses": 9}, KERNELS),
        ({"dies_in": 9}, KERNELS),
    ],
    ids=["table", "sweep", "cases", "boot", "probe in a boot"],
)
@pytest.mark.parametrize("out", [(), ("-o", "it.json")])
def test_what_was_measured_before_an_error_is_kept_and_named(
    ends: dict[str, Any], words: Sequence[str], out: Sequence[str], stat: Stat, here: Path
) -> None:
    place = stat.on(**ends)
    assert main(["stat", "ssh:bench", *out, *words]) == 2
    err = stat.capsys.readouterr().err
    files = re.search(r"What was measured before it is in (.*\.json)\.", err)
    assert files, err
    for file in map(Path, files[1].split(" and ")):
        assert file.is_relative_to(here / "cache") or (out and str(file.parent) == ".")
        assert read_recording(file).cases[0].noisy
    assert "Traceback" not in err
    assert place.closed


def test_nothing_measured_is_nothing_kept(stat: Stat) -> None:
    stat.on(failed={"read": "phase=time call=1 result=-9"})
    assert main(["stat", "ssh:bench", "--case", "read", "-o", "it.json"]) == 2
    assert not Path("it.json").exists()
    assert "What was measured" not in stat.capsys.readouterr().err


@pytest.mark.parametrize(("word", "groups"), [("7", 7), ("0.5s", 20)])
def test_for_takes_groups_or_seconds(word: str, groups: int, stat: Stat) -> None:
    """A second passes by the machine's clock in each group, so seconds end with the least."""
    place = stat.on()
    stat.text("--case", "read", "--for", word)
    assert place.groups == groups


@pytest.mark.parametrize(
    ("target", "compare", "boot", "kernels"),
    [
        ("local", ("getppid", "getpid"), "kexec", False),
        ("ssh:x", ("getppid", "getpid+vec=each"), "kexec", False),
        ("ssh:x", ("6.1.0-42-arm64", "6.12"), "kexec", True),
        ("ssh:x", ("/boot/a", "/boot/b"), "kexec", True),
        ("ssh:x", ("/boot/a", "getpid"), "kexec", False),
        ("ssh:x", ("old", "new"), "grub-reboot {}", True),
        ("kvm", ("debian:6.1", "debian:6.12"), "kexec", True),
        ("kvm", ("getppid", "getpid"), "kexec", False),
        ("board:b", ("old", "new"), "kexec", True),
        ("board:b", ("getppid", "getpid"), "kexec", False),
    ],
)
def test_what_compare_names(
    target: str, compare: tuple[str, str], boot: str, kernels: bool
) -> None:
    assert Options(target=target, compare=(compare,), boot=boot).compares_kernels is kernels
    assert not Options(target=target, boot=boot).compares_kernels


# --- for real, as little as can be ---------------------------------------------------------


@pytest.mark.slow
def test_a_table_for_real(stat: Stat) -> None:
    table = stat.document("recording", "--for", "6", "--case", "getppid,read")
    assert table["kernel"]["arch"] == host_arch().name
    assert table["target"]["kind"] == "local"
    for case in table["cases"]:
        metric = case["metrics"]["ns"]
        assert len(metric["samples"]) == 12
        assert metric["interval"][0] <= metric["value"] <= metric["interval"][1]
        assert 0 < case["metrics"]["loop_ns"]["value"] < metric["value"]


@pytest.mark.slow
def test_tails_for_real(stat: Stat) -> None:
    tails = stat.document("recording", "--tails", "--case", "getppid", "--for", "2")
    values = [metric["value"] for metric in tails["cases"][0]["metrics"].values()]
    assert values == sorted(values) and len(values) == 4


@pytest.mark.slow
def test_a_comparison_for_real_finds_a_known_slowdown(stat: Stat) -> None:
    """One more call for each: nothing is so noisy that it hides this."""
    words = ("--compare", "getppid", "getppid+extra=1/1", "--for", "40")
    [row] = stat.document("comparison", *words)["cases"]
    assert row["verdict"] == "worse"
    assert 50 < row["percent_of_old"] < 200
