# SPDX-License-Identifier: GPL-2.0-or-later
"""The tracing target without QEMU: its command line, which emulator, emulators that end badly."""

from pathlib import Path
from typing import Any

import pytest

from kentry.arch import ARCHES, find_arch
from kentry.boot import emulator as emulator_module
from kentry.boot.emulator import Emulator
from kentry.boot.guest_tasks import (
    Traced,
    TracedWorkload,
    TraceOptions,
    read_ending,
    trace_guest,
    tracing_emulator,
)
from kentry.boot.task_hooks import Hooks
from kentry.errors import FetchError, GuestError, MissingToolError
from kentry.progress import Update
from tests.builders import image_kernel
from tests.places import silent
from tests.unit.boot.conftest import argument, fake_qemu

WORKLOAD = TracedWorkload(Path("/the/rootfs.cpio"), ("systemd.x=1", "quiet"), {})
TEXT = 0xFFFF800080000000
HOOKS = Hooks(("offset pid 1", "switch ffff800080000000 0"), ((TEXT, "_stext"),))
ARM64 = find_arch("arm64")


@pytest.fixture
def having(monkeypatch: pytest.MonkeyPatch) -> dict[str, Emulator | Exception]:
    """The emulators that can be had, or why not, by what asks for them."""
    choices: dict[str, Emulator | Exception] = {}

    def find(arch: object, choice: str, update: object) -> Emulator:
        chosen = choices[choice]
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    monkeypatch.setattr(emulator_module, "find_emulator", find)
    return choices


def emulator(*numbers: int, **more: Any) -> Emulator:
    return Emulator(**{"argv": ("qemu",), "version": "x", "numbers": numbers, **more})


GONE = FetchError("The archive cannot be reached.")


@pytest.mark.parametrize(
    ("choice", "installed", "backports", "newest", "oldest", "taken"),
    [
        ("installed", (9, 2), GONE, GONE, (), (9, 2)),
        ("installed", (9, 1, 50), (9, 2, 0), GONE, (), (9, 2, 0)),
        ("installed", MissingToolError("None."), (10, 0, 2), GONE, (), (10, 0, 2)),
        # A release without backports takes the newest; so does a processor that needs it.
        ("installed", (7, 2, 22), GONE, (11, 1, 3), (), (11, 1, 3)),
        ("installed", (9, 2), (10, 0, 2), (11, 1, 3), (11, 0), (11, 1, 3)),
        ("installed", (7, 2, 22), GONE, GONE, (), FetchError),
        # One that was asked for is not replaced.
        ("backports", (11, 1), (9, 1, 3), (11, 1), (), MissingToolError),
    ],
)
def test_the_first_is_taken_that_can_trace_tasks(
    having: dict[str, Emulator | Exception],
    choice: str,
    installed: Any,
    backports: Any,
    newest: Any,
    oldest: tuple[int, ...],
    taken: Any,
) -> None:
    for name, found in (("installed", installed), ("backports", backports), ("newest", newest)):
        having[name] = found if isinstance(found, Exception) else emulator(*found)
    if isinstance(taken, tuple):
        assert tracing_emulator(ARM64, choice, silent, oldest).numbers == taken
    else:
        with pytest.raises(taken):
            tracing_emulator(ARM64, choice, silent, oldest)


def play(
    folder: Path,
    script: str = "echo hello",
    arch: str = "arm64",
    update: Update = silent,
    **options: Any,
) -> Traced:
    """Traces a guest that `script` plays."""
    emulator = str(fake_qemu(folder, script, "10.0.2"))
    all_options = TraceOptions(**options, emulator=emulator)
    return trace_guest(
        image_kernel(arch), ARCHES[arch], WORKLOAD, HOOKS, all_options, folder, update
    )


def test_the_guests_words_come_last(tmp_path: Path) -> None:
    traced = play(tmp_path, memory=3000, seed=9, append="mitigations=off isolcpus=1")
    assert (argument(tmp_path, "-m"), argument(tmp_path, "-seed")) == ("3000M", "9")
    assert argument(tmp_path, "-kernel") == "/boot/Image"
    assert argument(tmp_path, "-initrd") == "/the/rootfs.cpio"
    words = argument(tmp_path, "-append")
    assert words.startswith("panic=-1 quiet console=ttyAMA0 nokaslr")
    own = "randomize_kstack_offset=off"
    assert words.endswith(f"{own} mitigations=off isolcpus=1 systemd.x=1 quiet")
    # Without tracing no events are written.
    assert "out=" not in argument(tmp_path, "-plugin")
    assert traced.target == {
        "kind": "qemu",
        "emulator": "QEMU 10.0.2",
        "machine": "virt",
        "processor": "neoverse-n2",
        "mitigations": "",
        "cpu": traced.target["cpu"],
        "accelerator": "tcg, one thread, -icount shift=0,sleep=off",
        "memory_mib": 3000,
        "seed": 9,
        "cmdline": words,
    }


def test_the_plugin_finds_its_hooks_and_writes_below_the_folder(tmp_path: Path) -> None:
    traced = play(tmp_path, arch="riscv64", tracing=True)
    plugin, *words, firmware = argument(tmp_path, "-plugin").split(",")
    assert Path(plugin).name == "tasks.so"
    named = dict(word.split("=", 1) for word in words)
    assert Path(named.pop("hooks")).read_text() == "".join(f"{x}\n" for x in HOOKS.lines)
    assert Path(named.pop("functions")).read_text() == f"{TEXT:x}\n"
    assert named == {"counts": f"{tmp_path}/counts", "out": f"{tmp_path}/events"}
    assert firmware == "firmware=80000000-80200000"
    assert (traced.counts, traced.records) == (tmp_path / "counts", tmp_path / "events")


def test_mitigations_are_those_that_the_guest_printed(tmp_path: Path) -> None:
    script = "echo kentry-workload flaw spectre_v2 Mitigation: CSV2, BHB"
    script += "; echo kentry-workload flaw meltdown Not affected"
    assert play(tmp_path, script).target["mitigations"] == "spectre_v2=CSV2 bhb=mitigated"


@pytest.mark.parametrize(
    ("options", "cpu"),
    [
        ({}, "neoverse-n2,pauth-impdef=on"),
        ({"vector_length": 256}, "neoverse-v1,midr=0x411fd401,pauth-impdef=on"),
        ({"vector_length": 512}, "max,pauth-impdef=on,sve-max-vq=4"),
    ],
)
def test_the_cpu_is_a_real_core_if_any(tmp_path: Path, options: dict[str, Any], cpu: str) -> None:
    assert play(tmp_path, **options).target["cpu"] == cpu
    assert argument(tmp_path, "-cpu") == cpu


def test_the_progress_is_the_consoles_last_line(tmp_path: Path) -> None:
    texts: list[str] = []
    script = f"echo first; sleep 0.5; echo {'x' * 200}"
    play(tmp_path, script, update=lambda fraction, now: texts.append(now))
    assert list(dict.fromkeys(texts))[-2:] == ["running: first", f"running: {'x' * 60}"]


@pytest.mark.parametrize("asked", ["installed", "file"])
def test_a_private_copy_is_noted(
    having: dict[str, Emulator | Exception], tmp_path: Path, asked: str
) -> None:
    file = str(fake_qemu(tmp_path))
    mine = emulator(10, 0, 2, argv=(file,), env={"LD_LIBRARY_PATH": "/x"})
    having.update(installed=emulator(7, 2), backports=mine, file=mine)
    options = TraceOptions(emulator=asked)
    traced = trace_guest(image_kernel(), ARM64, WORKLOAD, HOOKS, options, tmp_path, silent)
    assert traced.stand_in == (asked == "installed")


@pytest.mark.slow
def test_the_console_is_kept_and_a_late_failure_is_not_judged(tmp_path: Path) -> None:
    traced = play(
        tmp_path,
        "echo booting; echo warning >&2; sleep 9",
        timeout=0.5,
        console_file=tmp_path / "c",
    )
    assert (tmp_path / "c").read_text() == "booting\n"
    assert "0.5 s" in traced.ending.clause
    assert traced.ending.stderr == "warning"


def test_an_emulator_that_dies_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GuestError, match="status 3") as caught:
        play(tmp_path, "echo 'no offset of pid' >&2; exit 3", console_file=tmp_path / "console")
    assert caught.value.detail == "no offset of pid"
    assert (tmp_path / "console").exists()


@pytest.mark.parametrize(
    ("console", "status", "clause", "output"),
    [
        (
            "OpenSBI v1.5\r\nkentry-workload start\r\n\x1b[31mone\x1b[0m line\r\nlast\r\n"
            "kentry-workload end 0\r\n[  2.5] reboot: Power down\r\n",
            0,
            "ended with exit code 0",
            "one line\nlast",
        ),
        ("kentry-workload end 3\n", 3, "ended with exit code 3", ""),
        ("kentry-workload end 137\n", 137, "ended with exit code 137 (128 + SIGKILL)", ""),
        ("kentry-workload end 128\n", 128, "ended with exit code 128", ""),
        ("kentry-workload end 255\n", 255, "ended with exit code 255", ""),
        ("kentry-workload start\nhalf\nkentry-workload end", None, "did not end", "half"),
        # Output without a last newline does not hide the end.
        ("kentry-workload start\nhikentry-workload end 3\n", 3, "ended with exit code 3", "hi"),
        # Control sequences are no output.
        ("\x1b[!p\x1b]104\x07\x1bP+q6E\x1b\\\x1b[?7htext\x1b(B", None, "did not end", "text"),
    ],
)
def test_an_ending_is_read(console: str, status: int | None, clause: str, output: str) -> None:
    ending = read_ending(console)
    assert (ending.status, ending.clause, ending.output) == (status, clause, output)


def test_only_the_last_40_lines_of_output_are_kept() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    ending = read_ending(f"kentry-workload start\n{text}kentry-workload end 1\n")
    assert len(ending.output.splitlines()) == 40
    assert ending.output.endswith("line 999")
    # What was cut, and what the runner could not do.
    ending = read_ending(
        "kentry-workload failed lo 19\nkentry-workload start\nkentry-workload failed /x 2\n"
        "a\nkentry-workload cut 100\nz\nkentry-workload end 127\n"
    )
    assert ending.output == "a\n[100 bytes of output are left out here]\nz"
