# SPDX-License-Identifier: GPL-2.0-or-later
"""The tracing target without QEMU: its command line, which emulator, emulators that end badly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import ARCHES, find_arch
from kentry.errors import FetchError, GuestError, MissingToolError
from kentry.runners import guest_tasks
from kentry.runners.emulator import Emulator
from kentry.runners.guest_tasks import Guest, Traced, TraceOptions, trace_guest, tracing_emulator
from kentry.runners.supervise import Ending

from .test_qemu import kernel

GUEST = Guest(Path("/the/rootfs.cpio"), ("systemd.x=1", "quiet"), "mark")
HOOKS = ("offset pid 1", "switch ffff800080000000")
ARM64 = find_arch("arm64")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))


def silent(fraction: float | None, now: str) -> None:
    pass


def emulator(*numbers: int, argv: tuple[str, ...] = ("qemu",)) -> Emulator:
    return Emulator(argv, ".".join(map(str, numbers)), numbers)


# --- which emulator ------------------------------------------------------


def having(monkeypatch: pytest.MonkeyPatch, **found: Emulator | Exception) -> list[str]:
    """Makes these the emulators that can be had; the list is of those asked for."""
    asked: list[str] = []

    def find(arch: object, choice: str = "installed", update: object = None) -> Emulator:
        asked.append(choice)
        one = found[choice]
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(guest_tasks, "find_emulator", find)
    return asked


@pytest.mark.parametrize("numbers", [(9, 2), (9, 2, 0), (10, 0, 2), (11, 1)])
def test_the_installed_one_is_taken_if_it_will_do(
    monkeypatch: pytest.MonkeyPatch, numbers: tuple[int, ...]
) -> None:
    asked = having(monkeypatch, installed=emulator(*numbers))
    assert tracing_emulator(ARM64, "installed", silent).numbers == numbers
    assert asked == ["installed"]


@pytest.mark.parametrize(
    "installed", [emulator(7, 2, 22), emulator(9, 1, 50), MissingToolError("None is installed.")]
)
def test_else_it_is_a_private_copy(
    monkeypatch: pytest.MonkeyPatch, installed: Emulator | Exception
) -> None:
    asked = having(monkeypatch, installed=installed, backports=emulator(10, 0, 2))
    assert tracing_emulator(ARM64, "installed", silent).numbers == (10, 0, 2)
    assert asked == ["installed", "backports"]


def test_a_release_without_backports_takes_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = having(
        monkeypatch,
        installed=emulator(8, 2),
        backports=FetchError("There are none."),
        newest=emulator(11, 1, 3),
    )
    assert tracing_emulator(ARM64, "installed", silent).numbers == (11, 1, 3)
    assert asked == ["installed", "backports", "newest"]


def test_where_none_can_be_had_the_last_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = FetchError("The archive cannot be reached.")
    having(monkeypatch, installed=MissingToolError("None."), backports=gone, newest=gone)
    with pytest.raises(FetchError, match="cannot be reached"):
        tracing_emulator(ARM64, "installed", silent)


def test_one_that_was_asked_for_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = having(monkeypatch, **{"/opt/qemu": emulator(9, 1, 3)})
    with pytest.raises(MissingToolError) as caught:
        tracing_emulator(ARM64, "/opt/qemu", silent)
    assert caught.value.sentence == ("9.1.3 cannot trace tasks: QEMU 9.2 is the first that can.")
    assert "--emulator backports or newest" in caught.value.remedy
    assert asked == ["/opt/qemu"]


# --- its command line ----------------------------------------------------


class Played:
    """In supervise()'s place: keeps what it is given."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        self.argv: list[str] = []
        self.doing = ""

    def __call__(
        self, argv: list[str], env: object, timeout: float, update: object, doing: Any
    ) -> Ending:
        self.argv, self.timeout = argv, timeout
        self.doing = doing(self.ending.console.encode())
        return self.ending

    def after(self, word: str) -> str:
        return self.argv[self.argv.index(word) + 1]


def played(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    ending: Ending | None = None,
    arch: str = "arm64",
    **options: Any,
) -> tuple[Played, Traced]:
    play = Played(ending or Ending("hello\n", "the machine rebooted or was switched off", ""))
    monkeypatch.setattr(guest_tasks, "supervise", play)
    monkeypatch.setattr(guest_tasks, "find_emulator", lambda *words: emulator(10, 0, 2))
    monkeypatch.setattr(guest_tasks, "tasks_plugin_file", lambda: Path("/native/tasks.so"))
    traced = trace_guest(
        kernel(arch), ARCHES[arch], GUEST, HOOKS, TraceOptions(**options), folder, silent
    )
    return play, traced


def test_the_guests_words_come_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    play, traced = played(monkeypatch, tmp_path)
    assert play.after("-kernel") == "/boot/Image"
    assert play.after("-initrd") == "/the/rootfs.cpio"
    words = play.after("-append")
    assert words.startswith("panic=-1 quiet console=ttyAMA0 nokaslr")
    assert words.endswith("randomize_kstack_offset=off systemd.x=1 quiet")
    assert traced.target["cmdline"] == words
    assert traced.target == {
        **traced.target,
        "kind": "qemu",
        "emulator": "QEMU 10.0.2",
        "machine": "virt",
        "memory_mib": 2048,
        "seed": 1,
    }


def test_the_plugin_finds_its_hooks_and_writes_below_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play, traced = played(monkeypatch, tmp_path)
    plugin, out, hooks, begin = play.after("-plugin").split(",")
    assert plugin == "/native/tasks.so"
    assert out == f"out={tmp_path}/events"
    assert begin == "from=mark"
    assert Path(hooks.removeprefix("hooks=")).read_text() == "".join(f"{x}\n" for x in HOOKS)
    assert traced.records == tmp_path / "events"


def test_firmware_is_no_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    play, _ = played(monkeypatch, tmp_path, arch="riscv64")
    assert play.after("-plugin").endswith(",firmware=80000000-80200000")


def test_a_run_without_the_plugin_is_the_same_but_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_it, _ = played(monkeypatch, tmp_path)
    without, _ = played(monkeypatch, tmp_path, plugin=False)
    assert without.argv == with_it.argv[:-2]
    assert with_it.argv[-2] == "-plugin"


@pytest.mark.parametrize(
    ("options", "cpu"),
    [
        ({}, "neoverse-n2,pauth-impdef=on"),
        ({"vector_length": 256}, "neoverse-v1,pauth-impdef=on"),
        ({"vector_length": 512}, "max,pauth-impdef=on,sve-max-vq=4"),
        ({"cpu": "max", "vector_length": 256}, "max"),
    ],
)
def test_the_cpu_is_one_that_people_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, Any], cpu: str
) -> None:
    play, traced = played(monkeypatch, tmp_path, **options)
    assert play.after("-cpu") == traced.target["cpu"] == cpu


def test_its_options_are_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    play, _ = played(monkeypatch, tmp_path, memory=3000, seed=9, timeout=12.5)
    assert play.after("-m") == "3000M"
    assert play.after("-seed") == "9"
    assert play.timeout == 12.5


@pytest.mark.parametrize(
    ("console", "said"),
    [
        ("", "booting"),
        ("one\ntwo\n  three  \n", "three"),
        ("x" * 100, "x" * 60),
        ("y\n" * 5000 + "last\r\n", "last"),
    ],
)
def test_progress_is_the_consoles_last_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, console: str, said: str
) -> None:
    play, _ = played(monkeypatch, tmp_path, Ending(console, "it ended", ""))
    assert play.doing == said


def test_the_console_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    played(monkeypatch, tmp_path, console_file=tmp_path / "console")
    assert (tmp_path / "console").read_text() == "hello\n"


def test_what_the_guest_did_is_not_judged_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for ending in (
        Ending("booting\n", "it was stopped after 1 s", "qemu: a warning"),
        Ending("", "it was stopped after 1 s", ""),
    ):
        assert played(monkeypatch, tmp_path, ending)[1].ending == ending


def test_an_emulator_that_dies_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ending = Ending(" \n", "QEMU ended with status 1", "qemu: kentry plugin: no offset of pid")
    with pytest.raises(GuestError) as caught:
        played(monkeypatch, tmp_path, ending, console_file=tmp_path / "console")
    assert caught.value.sentence == (
        "QEMU ended before the guest said anything: QEMU ended with status 1."
    )
    assert caught.value.detail == "qemu: kentry plugin: no offset of pid"
    assert (tmp_path / "console").exists()


def test_a_program_in_the_emulators_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing but supervise() is replaced above; here nothing is."""
    file = tmp_path / "qemu"
    file.write_text("#!/bin/sh\necho 'could not load kernel' >&2; exit 3\n")
    file.chmod(0o755)
    mine = replace(emulator(10, 0, 2), argv=(str(file),))
    monkeypatch.setattr(guest_tasks, "find_emulator", lambda *words: mine)
    with pytest.raises(GuestError, match="QEMU ended with status 3") as caught:
        trace_guest(kernel(), ARM64, GUEST, HOOKS, TraceOptions(), tmp_path, silent)
    assert caught.value.detail == "could not load kernel"
