# SPDX-License-Identifier: GPL-2.0-or-later
"""Every kind of console a guest has ended with; one file each in tests/consoles/."""

import pytest

from kentry.boot.console import explain, tail
from kentry.boot.probe_protocol import ProbeReport, read_report
from kentry.errors import GuestError, KentryError, MissingToolError, UserError
from kentry.kernels.kernel import gnu_build_id
from tests import ROOT

CONSOLES = ROOT / "tests" / "consoles"


def console(name: str) -> str:
    return (CONSOLES / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def read_probe(text: str) -> ProbeReport:
    return read_report(text.splitlines())


def test_good_console_has_an_end_mark_and_an_identity() -> None:
    report = read_probe(console("good"))
    assert report.started
    assert report.ended_cases == 14
    assert report.release == "6.12.95+deb12-arm64"
    assert gnu_build_id(report.notes) == "b4c0fd99162ec9911080499fc5c45a86cf7520ea"
    assert not report.failed
    assert not report.absent


@pytest.mark.parametrize(
    "name",
    [
        *("control-characters", "damaged-end", "empty", "truncated"),
        *("panic-foreign-init", "panic-mid-cases", "panic-no-root"),
    ],
)
def test_no_end_mark_is_never_taken_for_one(name: str) -> None:
    assert read_probe(console(name)).ended_cases is None


def test_printk_before_our_prefix_does_not_hide_our_line() -> None:
    report = read_probe(console("interleaved"))
    assert report.ended_cases == 12
    assert report.release == "6.12.95+deb12-arm64"
    assert report.failed == {"openat+close": "phase=count call=1 result=-24"}
    assert report.absent == {"getpid@int80": "the kernel does not take this entry instruction"}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "panic-no-root",
            "kernel panicked before the probe started:"
            " VFS: Unable to mount root fs on unknown-block(0,0).",
        ),
        (
            "panic-mid-cases",
            "kernel panicked while the cases ran: Attempted to kill init! exitcode=0x0000000b.",
        ),
        ("truncated", "probe's end mark: it was stopped after 60 s, while the cases ran."),
        ("empty", "probe's end mark: it was stopped after 60 s, before the probe started."),
    ],
)
def test_the_sentence_says_what_happened(name: str, sentence: str) -> None:
    text = console(name)
    err = explain(text, read_probe(text).started, "it was stopped after 60 s")
    assert err.sentence.endswith(sentence)
    assert err.exit_code == 2
    assert err.remedy


PLUGIN = "qemu-system-x86_64: -plugin /x/kentry.so: Could not load plugin /x/kentry.so: "
NO_MEMORY = (
    "qemu-system-aarch64: cannot set up guest memory 'mach-virt.ram': Cannot allocate memory"
)


@pytest.mark.parametrize(
    ("stderr", "kind", "sentence", "remedy"),
    [
        (
            "qemu-system-aarch64: unable to find CPU model 'cortexa76'",
            UserError,
            "QEMU has no such processor: unable to find CPU model 'cortexa76'."
            " Did you mean cortex-a76?",
            "--cpu",
        ),
        (
            "qemu-system-x86_64: warning: TCG doesn't support requested feature: CPUID.x\n"
            "qemu-system-x86_64: Property 'max-x86_64-cpu.foo' not found\n",
            UserError,
            "QEMU has no such processor: Property 'max-x86_64-cpu.foo' not found.",
            "--cpu",
        ),
        (
            "qemu-system-riscv64: Vector extension VLEN must be power of 2",
            UserError,
            "QEMU has no such processor: Vector extension VLEN must be power of 2.",
            "--cpu",
        ),
        (
            f"{PLUGIN}/x/kentry.so: failed to map segment from shared object",
            MissingToolError,
            "QEMU cannot load kentry's plugin: failed to map segment from shared object.",
            "noexec",
        ),
        (
            f"{PLUGIN}wrong ELF class: ELFCLASS32",
            MissingToolError,
            "QEMU cannot load kentry's plugin: wrong ELF class: ELFCLASS32.",
            "noexec",
        ),
        (
            NO_MEMORY,
            GuestError,
            "QEMU ended before the guest said anything: it broke.",
            "--cpu max",
        ),
    ],
)
def test_what_qemu_refuses_is_named(
    stderr: str, kind: type[KentryError], sentence: str, remedy: str
) -> None:
    err = explain("", False, "it broke", stderr)
    assert (type(err), err.sentence, err.exit_code) == (kind, sentence, 2)
    assert remedy in err.remedy
    assert kind is not GuestError or err.detail == stderr


def test_the_tail_is_short_and_fit_for_a_terminal() -> None:
    shown = tail(console("panic-no-root")).splitlines()
    assert len(shown) == 12
    assert "Memory Limit: none" in shown[-1]
    assert "\x1b" not in tail(console("control-characters"))
    assert "\x00" not in tail(console("control-characters"))
    assert tail("x" * 10_000) == "  | " + "x" * 200


def test_the_build_id_need_not_be_the_first_note() -> None:
    # Debian's amd64 kernels begin with a note of their own, name "Linux", size 6.
    linux = bytes.fromhex("0600000004000000010100004c696e757800000000000000")
    gnu = bytes.fromhex("0400000004000000030000004 74e5500aabbccdd".replace(" ", ""))
    assert gnu_build_id(linux + gnu) == "aabbccdd"
    for notes in (b"", b"\0" * 11, b"\x04\0\0\0\xff\xff\0\0\x03\0\0\0GNU\0abc"):
        assert gnu_build_id(notes) is None
