# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry stat from its arguments on: on a machine that takes no time, and once each for real."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import host_arch
from kentry.cli import main
from kentry.commands.stat import Options
from kentry.results.recording import read_recording
from kentry.time import preflight
from tests.builders import validate
from tests.places import BLOCK_CALLS, COUNTERS, FakePlace, opened

NS = {"getppid": 80.0, "getpid": 80.8, "invalid": 60.0, "read": 120.0}
FAKE = ("ssh:bench", "-q")


@pytest.fixture(autouse=True)
def moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes on the machine is read at once."""
    monkeypatch.setattr(preflight, "BETWEEN", 0.0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakePlace], FakePlace]:
    """Has every place be this one."""

    def used(place: FakePlace) -> FakePlace:
        monkeypatch.setattr(
            "kentry.commands.stat.open_machine", lambda text, options: opened(place)
        )
        return place

    return used


Use = Callable[[FakePlace], FakePlace]
Capture = pytest.CaptureFixture[str]


def said(words: Sequence[str], capsys: Capture, code: int = 0) -> str:
    assert main(["stat", *words]) == code, capsys.readouterr().err
    out = capsys.readouterr().out
    assert out.isascii()
    return out


def document(words: Sequence[str], capsys: Capture, kind: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said([*words, "--json"], capsys, code))
    validate(found, kind)
    return found


# --- a table -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stat", ["--for", "6", "--case", "getppid,read,first-use+vec=each"]),
        ("stat-sweep", ["--case", "read", "--working-set", "64K,32K", "--for", "4"]),
        ("stat-tails", ["--tails", "--case", "getppid,read"]),
        ("stat-pairs", ["--compare", "getppid", "getpid", "--compare", "read", "read"]),
        ("stat-undecided", ["--compare", "getppid", "noisy", "--for", "30"]),
    ],
)
def test_each_report_is_its_golden_file(
    name: str, words: list[str], use: Use, capsys: Capture, golden: Callable[[str, str], None]
) -> None:
    ns = {**NS, "read+cache=32K": 150.0, "read+cache=64K": 240.0, "read+cache=32K:code": 180.0}
    absent = {
        "first-use+vec=each": "it has no time of its own",
        "read+cache=64K:code": "a program may not run code here that it has written",
    }
    counters = "none:-13" if name == "stat-tails" else COUNTERS
    spread = 0.05 if name == "stat-undecided" else 0.001
    use(FakePlace(ns, absent=absent, counters=counters, spread=spread))
    words = [word.replace("noisy", "getpid") for word in words]
    more = [] if {"--for", "--tails"} & set(words) else ["--for", "60"]
    code = 3 if spread > 0.01 else 0
    golden(f"{name}.txt", said([*FAKE, *words, *more], capsys, code))


def test_a_table_as_json_is_a_recording(use: Use, capsys: Capture, tmp_path: Path) -> None:
    place = use(FakePlace(NS))
    words = [*FAKE, "--for", "6", "--case", "getppid,read", "-o", str(tmp_path / "it.json")]
    found = document(words, capsys, "recording-1")
    assert place.groups == 6 and place.closed
    # Two slots a case, to compare it with itself.
    assert "cases=getppid,read,getppid,read" in place.runs[0]
    assert [case["name"] for case in found["cases"]] == ["getppid", "read"]
    assert found["target"]["kind"] == "ssh"
    metric = found["cases"][0]["metrics"]["ns"]
    assert metric["assume"] == "noisy" and len(metric["samples"]) == 12
    assert {one["calls"] for one in metric["samples"]} == {BLOCK_CALLS}
    assert json.loads((tmp_path / "it.json").read_text()) == found
    assert len(read_recording(tmp_path / "it.json").cases) == 2


def test_the_cpu_of_a_recording_is_the_one_it_was_measured_on(use: Use, capsys: Capture) -> None:
    """Also where nobody looked at the machine: the probe says it."""
    use(FakePlace(NS))
    words = [*FAKE, "--for", "6", "--pin", "3", "--case", "read"]
    found = json.loads(said([*words, "--json"], capsys))
    assert found["target"]["on_cpu"] == 3


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
    counters: str, jumps: Collection[int], kinds: dict[str, str], use: Use, capsys: Capture
) -> None:
    use(FakePlace(NS, counters=counters, jumps=frozenset(jumps)))
    found = document([*FAKE, "--for", "6", "--case", "read"], capsys, "recording-1")
    caveats = {one["kind"]: one["text"] for one in found["caveats"]}
    assert caveats.keys() == kinds.keys()
    assert all(text in caveats[kind] for kind, text in kinds.items())


# --- a sweep, tails ------------------------------------------------------------------


def test_tails_as_json_have_percentiles(use: Use, capsys: Capture) -> None:
    use(FakePlace(NS))
    words = [*FAKE, "--tails", "--case", "getppid", "--for", "2"]
    found = document(words, capsys, "recording-1")
    assert found["options"] == {"calls": 200_000}
    metrics = found["cases"][0]["metrics"]
    assert {name: metric["value"] for name, metric in metrics.items()} == {
        "p50_ns": 80,
        "p99_ns": 80,
        "p99.9_ns": 320,
        "max_ns": 80_000,
    }


# --- comparisons ---------------------------------------------------------------------


def test_two_cases_as_json_are_a_comparison(use: Use, capsys: Capture, tmp_path: Path) -> None:
    use(FakePlace(NS))
    words = [*FAKE, "--compare", "getppid", "getpid", "--compare", "read", "invalid"]
    words += ["--for", "60", "-o", str(tmp_path / "it.json")]
    found = document(words, capsys, "comparison-1")
    rows = found["cases"]
    assert [row["name"] for row in rows] == ["getppid -> getpid", "read -> invalid"]
    assert [row["verdict"] for row in rows] == ["worse", "better"]
    assert rows[1]["percent_of_old"] == pytest.approx(-50, abs=1)
    assert rows[1]["interval"][0] < -50 < rows[1]["interval"][1]
    assert rows[1]["old"] == pytest.approx(120, rel=0.01)
    recording = read_recording(tmp_path / "it.json")
    assert [case.name for case in recording.cases] == ["getppid", "getpid", "read", "invalid"]
    assert recording.options["looks"] == 5


def test_undecided_kernels_are_code_3(use: Use, capsys: Capture) -> None:
    use(FakePlace(NS, kernels={"6.12": 1.01}, boot_spread=0.05))
    said([*FAKE, "--compare", "6.1", "6.12", "--case", "read", "--for", "6"], capsys, code=3)


# --- kernels ----------------------------------------------------------------------------


@pytest.mark.slow
def test_two_kernels_are_booted_interleaved(use: Use, capsys: Capture, tmp_path: Path) -> None:
    place = use(FakePlace(NS, kernels={"6.12": 1.05}, boot_spread=0.002))
    words = [*FAKE, "--compare", "6.1", "6.12", "--case", "read", "--for", "6"]
    found = document([*words, "-o", str(tmp_path / "k.json")], capsys, "comparison-1")
    assert set(place.booted) == {"6.1", "6.12"} and len(place.booted) == 24
    times = next(row for row in found["cases"] if row["metric"] == "ns")
    assert times["verdict"] == "worse" and times["paired"]
    assert times["interval"][0] < 5 < times["interval"][1]
    for word in ("old", "new"):
        recording = read_recording(tmp_path / f"k.{word}.json")
        validate(json.loads((tmp_path / f"k.{word}.json").read_text()), "recording-1")
        assert len({one.boot for one in recording.cases[0].noisy["ns"].samples}) == 12


# --- what ends early ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ({"dies_in": 1}, ["--for", "9", "--case", "read"]),
        ({"dies_in": 1}, ["--for", "9", "--case", "read", "--working-set", "64K"]),
        ({"dies_in": 1}, ["--compare", "read", "getpid", "--for", "40"]),
        ({"refuses": 9}, ["--compare", "6.1", "6.12", "--case", "read"]),
        ({"dies_in": 9}, ["--compare", "6.1", "6.12", "--case", "read"]),
    ],
    ids=["table", "sweep", "cases", "boot", "probe in a boot"],
)
@pytest.mark.parametrize("named", [True, False])
def test_what_was_measured_before_an_error_is_kept_and_named(
    ends: dict[str, int],
    words: list[str],
    named: bool,
    use: Use,
    capsys: Capture,
    tmp_path: Path,
    cache: Path,
) -> None:
    place = use(FakePlace(NS, dies_in=ends.get("dies_in"), refuses=ends.get("refuses")))
    out = ["-o", str(tmp_path / "it.json")] if named else []
    assert main(["stat", *FAKE, *out, *words]) == 2
    err = capsys.readouterr().err
    found = re.search(r"What was measured before it is in (.*\.json)\.", err)
    assert found, err
    for file in map(Path, found[1].split(" and ")):
        assert file.is_relative_to(cache) or (named and file.parent == tmp_path)
        assert read_recording(file).cases[0].noisy
    assert "Traceback" not in err
    assert place.closed


def test_nothing_measured_is_nothing_kept(use: Use, capsys: Capture, tmp_path: Path) -> None:
    use(FakePlace(NS, failed={"read": "phase=time call=1 result=-9"}))
    file = tmp_path / "it.json"
    assert main(["stat", *FAKE, "--case", "read", "-o", str(file)]) == 2
    assert not file.exists()
    assert "What was measured" not in capsys.readouterr().err


@pytest.mark.parametrize(("word", "groups"), [("7", 7), ("0.5s", 20)])
def test_for_takes_groups_or_seconds(word: str, groups: int, use: Use, capsys: Capture) -> None:
    """A second passes by the machine's clock in each group, so seconds end with the least."""
    place = use(FakePlace(NS))
    said([*FAKE, "--case", "read", "--for", word], capsys)
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

REAL = ("-q",)


@pytest.mark.slow
def test_a_table_for_real(capsys: Capture) -> None:
    found = document([*REAL, "--for", "6", "--case", "getppid,read"], capsys, "recording-1")
    assert found["kernel"]["arch"] == host_arch().name
    assert found["target"]["kind"] == "local"
    for case in found["cases"]:
        metric = case["metrics"]["ns"]
        assert len(metric["samples"]) == 12
        assert metric["interval"][0] <= metric["value"] <= metric["interval"][1]
        assert 0 < case["metrics"]["loop_ns"]["value"] < metric["value"]


@pytest.mark.slow
def test_tails_for_real(capsys: Capture) -> None:
    found = document([*REAL, "--tails", "--case", "getppid", "--for", "2"], capsys, "recording-1")
    values = [metric["value"] for metric in found["cases"][0]["metrics"].values()]
    assert values == sorted(values) and len(values) == 4


@pytest.mark.slow
def test_a_comparison_for_real_finds_a_known_slowdown(capsys: Capture) -> None:
    """One more call for each: nothing is so noisy that it hides this."""
    words = [*REAL, "--compare", "getppid", "getppid+extra=1/1", "--for", "40"]
    found = document(words, capsys, "comparison-1")
    assert found["cases"][0]["verdict"] == "worse"
    assert 50 < found["cases"][0]["percent_of_old"] < 200
