# SPDX-License-Identifier: GPL-2.0-or-later
"""A mistake in a command line is one sentence that names it, a remedy and code 2, and no output."""

import shlex
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.commands import stat, userland, vector_costs
from kentry.results.recording import write_recording
from kentry.time import preflight
from tests.builders import recording, timed
from tests.unit.commands.conftest import ROWS
from tests.unit.importing import samples
from tests.unit.vector.traces import save, trace_of

NO_EFFECT = "has no effect"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A mistake is found before anything is fetched.
    for command in (userland, vector_costs):
        monkeypatch.setattr(command, "resolve", lambda *words: pytest.fail("fetched"))
    for name, count in (("old", 40), ("new", 43)):
        write_recording(recording({"getppid": [("el0_svc", count)]}), here / f"{name}.json")
    write_recording(timed({"getppid": 80.0}, groups=2), here / "times.json")
    other = recording({"getppid": [("a", 9)]}, kernel={"arch": "riscv64"})
    write_recording(other, here / "riscv.json")
    write_recording(recording({"read": [("a", 9)]}), here / "read.json")
    save(here / "x.parquet", trace_of(ROWS))
    (here / "mine.txt").write_text(samples.LAT_SYSCALL)
    (here / "Image").write_bytes(b"MZ\x00")
    (here / "long").write_text("x" * 200)
    (here / "list.json").write_text("[]")
    # A mistake is told before a trace is replayed, which takes seconds to compile.
    monkeypatch.setattr("kentry.vector.ranking.check", lambda trace, unit: None)
    monkeypatch.setattr("kentry.vector.ranking.rank", lambda *words: pytest.fail("replayed"))
    # What this machine does meanwhile is not looked at.
    monkeypatch.setattr(preflight, "BETWEEN", 0)


def check(line: str, datum: str, capsys: Capture) -> None:
    assert main(shlex.split(line)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert datum in captured.err
    assert len([one for one in captured.err.splitlines() if one.startswith("kentry: ")]) >= 2
    assert "kentry failed" not in captured.err and "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("line", "datum"),
    [
        ("vector costs debian:6.12 --arch riscv64 --vl 100", "no V of 100 bits"),
        ("stat kvm:debian:6.12 --compare debian:6.1 debian:6.12", "is a third kernel"),
        ("stat kvm --compare debian:6.1 debian:6.12 --compare debian:6.1 debian:6.6", "once"),
        ("stat ssh:x --compare debian:6.1 debian:6.12", "ssh:x cannot compare debian:6.1 and"),
        ("stat kvm --compare read stat --compare debian:6.1 running", "compare debian:6.1 and"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_fetched(
    line: str, datum: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stat, "open_machine", lambda *words: pytest.fail("reached"))
    check(f"{line} -q", datum, capsys)


KERNELS = "--compare /boot/a /boot/b"
# Options that measure have no effect on recordings.
MEASURES = [
    (word, f"{word.partition('=')[0]} {NO_EFFECT}")
    for word in (
        *("--arch=arm64", "--config=distro", "--config=tiny", "--config=CONFIG_X=y"),
        *("--emulator=newest", "--timeout=5", "--fresh"),
    )
]
PROGRAMS = [
    ("--append init=/bin/sh -- true", "init"),
    ("--timeout 0 -- true", "--timeout"),
    ("--release potato -- true", "potato"),
    ("--packages ~nobody -- true", "~nobody"),
    ("--packages bc,-o=x -- true", "-o=x"),
    ("--packages , -- true", "--packages"),
    ("--copy /nonexistent/file -- true", "/nonexistent/file"),
    ("--copy /etc/hosts:etc -- true", "etc"),
    ("-o /nonexistent/x.parquet -- true", "/nonexistent"),
    ("-o / -- true", "/"),
    # debian:6.12 is not built here.
    ("--config userland -- true", "--config"),
    ("-- ''", "empty"),
    ("", "WORKLOAD"),
    ("--arch vax -- true", "Unknown architecture 'vax'"),
    # It runs here, in one boot.
    ("--on slurm -- true", "--on"),
    ("--plan x -- true", "--plan"),
]
# By command: what follows it, and what the sentence or the remedy names.
MISTAKES = {
    "": [
        ("vector", "COMMAND"),
        ("frobnicate", "frobnicate"),
        ("recrod x", "Did you mean record?"),
        ("help vector replya", "Did you mean replay?"),
        ("record", "SPEC"),
        ("record debain:6.12", "Did you mean debian?"),
        ("record tree:.", "tree"),
        ("record debian:6.12 --arch vax", "Unknown architecture 'vax'"),
        ("record debian:6.12 --arch amr64", "Did you mean arm64?"),
        (
            "record debian:6.12 --arch arm64 --case getpppid",
            "Unknown case 'getpppid' on arm64. Did you mean getppid?",
        ),
        ("record debian:6.12 --case ,", "--case"),
        ("record debian:6.12 -o /nonexistent/x.json", "does not exist"),
        ("record debian:6.12 -o /proc/x.json", "/proc"),
        ("record debian:6.12 --console /nonexistent/console", "/nonexistent"),
        ("record debian:6.12 --memory 1", "--memory"),
        ("record debian:6.12 --config distro", f"--config {NO_EFFECT}"),
        ("diff old.json new.json --no-sandbox", f"--no-sandbox {NO_EFFECT}"),
        ("stat here --no-sandbox", f"--no-sandbox {NO_EFFECT}"),
        ("record debian:6.12 --config CONFIG_X=y", f"--config {NO_EFFECT}"),
        ("record debian:6.12 --vl 256", f"--vl {NO_EFFECT}"),
        ("series source:6.12 a.mbox --vl 256", f"--vl {NO_EFFECT}"),
        ("record x --paths 0", "--paths"),
        # Nothing would be measured of what is a recording.
        *((f"{command} old.json", "read recordings") for command in ("record", "ablate")),
        ("record old.json --seed 4", "old.json is a file"),
        ("ablate old.json --mitigations", "old.json is a file"),
        ("record image:/nonexistent/Image", "/nonexistent/Image"),
        ("record deb:/nonexistent/x.deb", "/nonexistent/x.deb"),
        ("diff a.json b.json", "a.json cannot be read: No such file or directory"),
        ("diff nonsense:1 b.json", "nonsense"),
        (f"diff image:{'x' * 5000} old.json", "xxx"),
        ("diff a --jsno b", "Did you mean --json?"),
        ("diff a b --emulatr=newest", "Did you mean --emulator?"),
        ("doctor --color alwyas", "Did you mean always?"),
        ("stat kvm --accel kmv", "Did you mean kvm?"),
        ("completion zhs", "Did you mean zsh?"),
        ("diff old.json new.json --case read", "no case 'read' in old.json or new.json."),
        ("diff old.json list.json", "list.json is JSON, but not a recording."),
        ("diff old.json debian:6.12 --arch riscv64", "old.json is of arm64"),
        ("diff old.json riscv.json", "riscv64"),
        ("diff times.json debian:6.12", "has times only"),
        ("diff old.json new.json --json --color always", f"--color {NO_EFFECT}"),
        ("check new.json --budget b --format ktap --color always", f"--color {NO_EFFECT}"),
        ("diff debian:6.1 running --config CONFIG_X=y", f"--config {NO_EFFECT}"),
        *((f"diff old.json new.json {word}", word) for word in ("--paths", "--seed", "--matrix")),
        ("annotate ''", "the value is empty"),
        (f"annotate {'x' * 300}", "xxx"),
        ("annotate none.json", "none.json cannot be read"),
        ("annotate Image", "image:Image"),
        ("annotate old.json --case read", "no case 'read' in old.json."),
        ("annotate old.json riscv.json", "two architectures"),
        ("annotate old.json long", "is not a"),
        ("annotate old.json none.json", "cannot be read"),
        ("annotate old.json new.json --case read", "no case 'read'"),
        ("annotate old.json read.json --case read", "has no case read"),
        ("annotate old.json new.json --core cortex-a55", f"--core {NO_EFFECT}"),
        ("annotate old.json new.json --context -1", "not a whole number"),
        ("annotate old.json --context 5", f"--context {NO_EFFECT}"),
        ("bisect --log --compiler gcc", f"--compiler {NO_EFFECT}"),
        ("bisect --good a --bad b", "not a git repository"),
        ("bisect --good a --bad b --tree gone", "not a git repository"),
        ("log v1..v2", "not a git repository"),
        ("log old.json new.json --every 2", f"--every {NO_EFFECT}"),
        ("log old.json new.json --jobs 2", f"--jobs {NO_EFFECT}"),
        ("log old.json new.json --tree gone", f"--tree {NO_EFFECT}"),
        ("log old.json new.json --case getppid,read", "no case read"),
        ("log old.json new.json --picture a.txt", "unknown picture format"),
        *((f"report {word} a.json -o b", word[:6]) for word in ("--fresh", "--timeout=5")),
        ("export x --format foldd", "Did you mean folded?"),
        ("export old.json", "--format"),
        (
            "export old.json --format xml",
            "Unknown format 'xml'.\nkentry: Formats: benchfmt, ktap, ",
        ),
        ("export old.json --format csv -o no/x", "does not exist.\nkentry: Run: "),
        ("export old.json --format csv -o .", "is a folder.\n"),
        ("export none.json --format csv", "none.json cannot be"),
        ("export old.json times.json --format speedscope", "has no paths"),
        ("import mine.txt --arch vax", "vax"),
        ("import mine.txt -o out", "--arch"),
        ("import mine.txt none.txt", "none.txt"),
        ("join none.json times.json -o both.json", "none.json"),
        ("join times.json times.json -o none/both.json", "none"),
        ("join riscv.json times.json -o both.json", "riscv64"),
        ("series . HEAD~1..HEAD", "'tree:.'"),
    ],
    "record debian:6.12 --matrix vector": [
        # Numbers are plain digits.
        *(
            (f"{name}={text}", name)
            for name in ("--paths", "--seed", "--memory", "--timeout", "--vl")
            for text in ("1_000", "-1", "nan", "inf", "1e3", "0x10", "' 7'", "٣")
        ),
        *((f"--vl={text}", "--vl") for text in ("big", "128,", "128,,256", "1.5")),
    ],
    "diff old.json new.json": MEASURES,
    "annotate old.json": MEASURES,
    "stat -q": [
        ("bench", "bench"),
        ("ssh:", "ssh:"),
        (KERNELS, "/boot/"),
        ("-o /nonexistent/x.json", "/nonexistent"),
        ("--working-set ''", "--working-set"),
        ("--tails --working-set 1M", f"--tails {NO_EFFECT}"),
        ("--tails --compare read write", f"--tails {NO_EFFECT}"),
        ("--working-set 1M --compare read write", f"--working-set {NO_EFFECT}"),
        ("--compare read write --case stat", f"--case {NO_EFFECT}"),
        ("--threshold 1", f"--threshold {NO_EFFECT}"),
        ("--tails --for 9s", f"--for {NO_EFFECT}"),
        ("kvm --for 9s", f"--for {NO_EFFECT}"),
        ("ssh:x --compare 6.1 6.12 --for 9s", f"--for {NO_EFFECT}"),
        ("--accel tcg", f"--accel {NO_EFFECT}"),
        ("ssh:x --arch arm64", f"--arch {NO_EFFECT}"),
        ("ssh:x --boot kexec", f"--boot {NO_EFFECT}"),
        ("--boot kexec --compare 6.1 6.12", f"--boot {NO_EFFECT}"),
        ("ssh:x --emulator newest", f"--emulator {NO_EFFECT}"),
        *(
            (f"--for {word}", "--for")
            for word in ("0", "0s", "-1", "1.5", "nans", "1e9s", "x", "s")
        ),
        *((f"--threshold {word}", "--threshold") for word in ("0", "100", "x")),
        *((f"--pin {word}", "--pin") for word in ("-1", "8192", "x")),
        ("--pin 8191 --case getppid --for 1", "8191"),
        ("--compare a", "--compare"),
        ("--accel hvf", "--accel"),
        ("--case ''", "--case"),
        ("local more", "more"),
        ("--working-set big", "big"),
        ("--working-set ,", "--working-set"),
        ("--working-set 1M --case read,write", "read, write"),
        ("--working-set 1M --case read+extra=1/9", "read+extra=1/9"),
        ("--tails --case nothing", "nothing"),
        ("--tails --case read+cache=cold", "read+cache=cold"),
        ("--compare read nothing", "nothing"),
        ("--compare read* read", "read*"),
        ("--compare read read+cache=warm", "+cache=warm"),
        ("--compare read read --for 9", "--for 9"),
        ("--compare debian:6.1 debian:6.12", "debian:6.1"),
        ("--compare read write " * 17, "68"),
        (f"{KERNELS} --for 5", "--for 5"),
    ],
    "vector trace debian:6.12 --arch arm64 -q": PROGRAMS,
    "run debian:6.12 --arch arm64 -q": PROGRAMS,
    "vector -q": [
        ("trace debian:6.12 --arch arm64 --vl 300 -- true", "300"),
        ("trace debian:6.12 --arch arm64 --cpu graviton3 --vl 512 -- true", "256"),
        ("trace debian:6.12,cpu=a64fx --arch arm64 --cpu max --vl 256 -- true", "512"),
        ("trace debian:6.12 --arch arm64 --cpu cortex-a76 -- true", "no SVE"),
        ("trace debian:6.12 --arch arm64 --cpu max,sve=on --vl 256 -- true", "--vl"),
        ("trace debian:6.12 --kernel-policy nonsense -- true", "nonsense"),
        ("trace debian:6.12 --kernel-policy '' -- true", "--kernel-policy"),
        ("replay x.parquet --costs ''", "--costs"),
        ("replay x.parquet --costs none-such", "none-such"),
        ("replay x.parquet --costs sifive-x280", "riscv64"),
        ("replay x.parquet --policy ,", "--policy"),
        ("replay x.parquet --policy nonsense", "nonsense"),
        ("replay x.parquet --sweep keep", "keep"),
        ("replay x.parquet x.parquet", "x.parquet"),
        ("stats long", "kentry: long "),
        ("stats none", "kentry: none "),
        ("costs sve128 --here", "--here"),
        ("costs none-such", "none-such"),
        ("costs sve128 -o /none/x.toml", "/none/x.toml"),
        ("costs debian:6.12 --arch m68k", "m68k"),
        ("costs -o x.toml", f"--output {NO_EFFECT}"),
        ("costs sve128 --arch arm64", f"--arch {NO_EFFECT}"),
        ("costs sve128 --vl 128", f"--vl {NO_EFFECT}"),
    ],
}


@pytest.mark.parametrize(
    ("line", "datum"),
    [(f"{command} {words}", datum) for command, rows in MISTAKES.items() for words, datum in rows],
)
def test_a_mistake(line: str, datum: str, capsys: Capture) -> None:
    check(line, datum, capsys)
    assert not Path("out").exists() and not Path("both.json").exists()
