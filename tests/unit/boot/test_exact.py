# SPDX-License-Identifier: GPL-2.0-or-later
"""The emulator's command line, and runs of emulators that only play one."""

from pathlib import Path
from typing import Any

import pytest

from kentry.arch import find_arch
from kentry.boot.exact import ExactOptions, GuestRun, QemuRunner
from kentry.errors import GuestError, TraceError
from kentry.host.native import probe_file
from kentry.progress import Update
from tests.builders import image_kernel
from tests.places import silent
from tests.processes import PATIENCE
from tests.unit.boot.conftest import argument, fake_qemu, rows

TRACE = """\
kentry-trace 1
qemu aarch64 api=1
message case getppid count 1
window 1000 312 0 1 0 0 0 -
message end 1
spoilt 0
end 1000
"""


GOOD = "echo kentry-probe start arm64; echo kentry-probe end cases=1"


def play(
    folder: Path,
    script: str,
    timeout: float = PATIENCE,
    update: Update = silent,
    **options: Any,
) -> GuestRun:
    """Runs `script` in the emulator's place."""
    emulator = str(fake_qemu(folder, script))
    all_options = ExactOptions(("getppid", "read"), timeout=timeout, emulator=emulator, **options)
    return QemuRunner(find_arch("arm64")).run(image_kernel(), all_options, update)


def test_the_progress_is_of_the_cases_turns(tmp_path: Path) -> None:
    script = (
        "echo kentry-probe start arm64; printf 'kentry-trace 1\\n' >$plugin_out;"
        " for case in read warm getppid; do"
        " printf 'message case %s count 1\\n' $case >>$plugin_out; sleep 0.5; done"
    )
    told: list[float | None] = []
    with pytest.raises(GuestError):
        play(tmp_path, script, update=lambda fraction, now: told.append(fraction), rounds=2)
    # Two rounds of two cases in four phases.
    assert list(dict.fromkeys(told))[-3:] == [1 / 16, 2 / 16, 3 / 16]


def good(folder: Path, **options: Any) -> GuestRun:
    (folder / "good").write_text(TRACE)
    return play(folder, f"{GOOD}; cp {folder}/good $plugin_out", **options)


def words_of_run(folder: Path, **options: Any) -> list[str]:
    good(folder, **options)
    return (folder / "argv").read_text().splitlines()


def test_the_command_line_boots_the_probe_with_its_cases(tmp_path: Path) -> None:
    words = words_of_run(tmp_path)
    assert words[words.index("-kernel") + 1] == "/boot/Image"
    assert argument(tmp_path, "-append").endswith(
        " nokaslr randomize_kstack_offset=off dhash_entries=1048576"
        " -- n=1000 paths=128 warmup=16 cases=/cases rounds=8 links=0 seed=1 facts=@/facts"
    )
    found = rows([Path(argument(tmp_path, "-initrd")).read_bytes()])
    assert {name: (row.mode, row.device) for name, row in found.items()} == {
        "dev": (0o40755, (0, 0)),
        "dev/console": (0o20600, (5, 1)),
        "cases": (0o100444, (0, 0)),
        "facts": (0o100444, (0, 0)),
        "init": (0o100755, (0, 0)),
    }
    assert found["cases"].data == b"getppid\nread\n"
    assert found["init"].data == probe_file(find_arch("arm64")).read_bytes()
    plugin = argument(tmp_path, "-plugin").split(",")
    assert "text ffff800008010000" in Path(plugin[2].removeprefix("traps=")).read_text()
    assert "check=on" not in plugin
    assert "check=on" in words_of_run(tmp_path, check=True)[-1].split(",")
    # Randomising changes the kernel's words and nothing else; the trace has another name each time.
    random = words_of_run(tmp_path, randomise=True)
    assert [
        new for old, new in zip(words, random, strict=True) if old != new and "out=" not in new
    ] == [
        "panic=-1 quiet console=ttyAMA0 randomize_kstack_offset=on dhash_entries=1048576"
        " -- n=1000 paths=128 warmup=16 cases=/cases rounds=8 links=0 seed=1 facts=@/facts"
    ]


@pytest.mark.parametrize(
    ("arch", "lines"),
    [
        ("riscv64", {"text ffff800008010000", "irq ffff800008030000"}),
        ("x86_64", {"text ffff800008010000", "irq ffff800008020000"}),
        # Offsets into its vectors.
        ("arm64", {"irq ffff800008010a80", "exception ffff800008010a00"}),
    ],
)
def test_traps_are_found_by_whole_names(arch: str, lines: set[str]) -> None:
    found = QemuRunner(find_arch(arch)).traps(image_kernel(arch)).splitlines()
    assert lines <= set(found)
    assert arch == "arm64" or len(found) == len(lines)


def test_a_whole_run(tmp_path: Path) -> None:
    run = good(tmp_path)
    assert run.trace.cases_ended == 1
    assert run.target["emulator"] == "QEMU 7.2.22"
    # No trace is left behind.
    with pytest.raises(GuestError):
        play(tmp_path, "echo x")
    assert [file.name for file in (tmp_path / "cache/scratch").iterdir()] == ["lock"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "QEMU ended before the guest said anything: QEMU ended with status 1"),
        ("echo booting; exit 0", "the machine rebooted or was switched off, before the probe"),
        ("echo kentry-probe start arm64; sleep 100", "without progress, while the cases ran"),
        ("yes all work and no play", "it was stopped because it printed more than 4 MiB"),
        ("echo 'Internal error: Oops: 96 [#1]'; echo x0; sleep 100", "oopsed before .*: Internal"),
        ("echo 'Kernel panic - not syncing: no init'; sleep 100", "panicked before .*: no init"),
        ("while :; do printf '\\033[2J'; done", "because it printed more than 4 MiB"),
    ],
)
def test_a_guest_that_misbehaves_is_one_sentence(tmp_path: Path, script: str, words: str) -> None:
    if script == "exit 1":
        script = "echo 'qemu: could not load kernel' >&2; exit 1"
    with pytest.raises(GuestError, match=words) as caught:
        play(tmp_path, script, timeout=1 if "sleep" in script and "#1" not in script else PATIENCE)
    assert "oops" not in words or "x0" in caught.value.detail
    assert "\x1b" not in str(caught.value) + caught.value.detail


@pytest.mark.slow
def test_a_guest_may_take_its_time_while_it_gets_on(tmp_path: Path) -> None:
    (tmp_path / "good").write_text(TRACE)
    steps = "for i in 1 2 3; do sleep 0.5; echo $i; sleep 0.5; echo $i >>$plugin_out; done"
    play(tmp_path, f"{steps}; {GOOD}; cp {tmp_path}/good $plugin_out", timeout=0.9)


def test_a_trace_that_is_not_there_or_disagrees_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError):
        play(tmp_path, GOOD)
    (tmp_path / "other").write_text(TRACE.replace("message end 1", "message end 2"))
    with pytest.raises(GuestError, match="disagree about"):
        play(tmp_path, f"{GOOD}; cp {tmp_path}/other $plugin_out")
