# SPDX-License-Identifier: GPL-2.0-or-later
"""A recorded path against a debugger's single steps, which no plugin of kentry's has a part in.

QEMU's own gdbstub stops the probe at a mark and steps through the window.  The addresses that it
names, in order, must be those of the recording.
"""

import contextlib
import io
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kentry.arch import ARCHES, Arch
from kentry.boot.exact import ExactOptions, QemuRunner
from kentry.host.native import probe_file
from kentry.kernels.kernel import Kernel
from kentry.results.recording import Recording
from tests.places import silent

from .conftest import timed
from .test_record import KERNEL, fetched, recorded

pytestmark = pytest.mark.qemu

CASES = ("getppid", "read")
# Which window of a case is looked at: what only the first calls do is done.
_WARM = 24
_USER_END = 1 << 55


@dataclass(frozen=True)
class Isa:
    """Bytes of the marks around a window; as gdb numbers registers, pc and a call's number."""

    begin: bytes
    end: bytes
    pc: int
    number: int
    calls: dict[int, str]


def _word(value: int) -> bytes:
    return struct.pack("<I", value)


# guest/marks.h says how a mark is encoded.
ISAS = {
    "arm64": Isa(_word(0xD295603F), _word(0xD295605F), 32, 8, {173: "getppid", 63: "read"}),
    "riscv64": Isa(_word(0xABC01037), _word(0xABC02037), 32, 17, {173: "getppid", 63: "read"}),
    "x86_64": Isa(
        b"\x0f\x1f\x84\x00" + _word(0x5AABBC01),
        b"\x0f\x1f\x84\x00" + _word(0x5AABBC02),
        16,
        0,
        {110: "getppid", 0: "read"},
    ),
}


class Debugger:
    """The few packets of gdb's remote protocol that stepping takes."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        for _ in range(300):
            with contextlib.suppress(OSError):
                self._socket.connect(str(path))
                break
            time.sleep(0.1)
        self._socket.settimeout(300)
        self._stream = self._socket.makefile("rb")
        self.ask("QStartNoAckMode")
        self._socket.sendall(b"+")
        # QEMU tells single registers only to who asked for their description.
        self.ask("qXfer:features:read:target.xml:0,ffb")

    def __enter__(self) -> "Debugger":
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, packet: str) -> str:
        """The answer to a packet."""
        self._socket.sendall(f"${packet}#{sum(packet.encode()) % 256:02x}".encode())
        while self._stream.read(1) != b"$":
            pass
        answer = b"".join(iter(lambda: self._stream.read(1), b"#"))
        self._stream.read(2)
        return answer.decode()

    def register(self, number: int) -> int:
        return int.from_bytes(bytes.fromhex(self.ask(f"p{number:x}")), "little")


def _addresses(arch: Arch, code: bytes) -> Iterator[int]:
    """Where the probe has these bytes."""
    for segment in ELFFile(io.BytesIO(probe_file(arch).read_bytes())).iter_segments("PT_LOAD"):
        data, at = segment.data(), -1
        while (at := data.find(code, at + 1)) >= 0:
            yield segment["p_vaddr"] + at


def stepped(arch: Arch, debugger: Debugger) -> dict[str, list[int]]:
    """By case, the kernel's addresses in a window, in the order of execution."""
    isa = ISAS[arch.name]
    begins, ends = (set(_addresses(arch, code)) for code in (isa.begin, isa.end))
    for address in begins:
        assert debugger.ask(f"Z0,{address:x},4") == "OK"
    windows: dict[str, list[int]] = {}
    calls: Counter[str] = Counter()
    while len(windows) < len(CASES):
        assert debugger.ask("c").startswith("T05"), "the guest ended"
        case = ""
        path: list[int] = []
        while (pc := debugger.register(isa.pc)) not in ends:
            if pc < _USER_END:
                case = isa.calls.get(debugger.register(isa.number), "")
            elif not path:
                calls[case] += 1
            if pc >= _USER_END and calls[case] != _WARM:
                break
            # The debugger names an x86 REP instruction for each time that it repeats.
            if pc >= _USER_END and path[-1:] != [pc]:
                path.append(pc)
            debugger.ask("s")
        if path:
            windows[case] = path
    for address in begins:
        debugger.ask(f"z0,{address:x},4")
    debugger.ask("D")
    return windows


class Runner(QemuRunner):
    """Boots as for the machine's own counter, without a plugin, and with a debugger."""

    def steps(self, kernel: Kernel, options: ExactOptions, path: Path) -> dict[str, list[int]]:
        stub = ["-S", "-chardev", f"socket,id=gdb,path={path},server=on,wait=off"]
        stub += ["-gdb", "chardev:gdb"]
        with ThreadPoolExecutor(1) as pool:
            booted = pool.submit(self._boot, kernel, options, self._guest(options), stub, silent)
            with Debugger(path) as debugger:
                windows = stepped(self.arch, debugger)
            booted.result()
        return windows


def _path(recording: Recording, name: str) -> list[int]:
    case = recording.case(name)
    assert case and case.modal_path and recording.code
    return [one.address for one in recording.instructions(case.modal_path)]


@pytest.mark.parametrize(
    ("arch", "cpu"),
    [
        ("arm64", "cortex-a76"),
        ("arm64", "neoverse-n2"),
        ("x86_64", "skylake"),
        ("x86_64", "zen4"),
        ("riscv64", "sifive-u54"),
        ("riscv64", "sifive-x280"),
    ],
)
def test_a_debugger_steps_through_the_recorded_path(arch: str, cpu: str, tmp_path: Path) -> None:
    kernel, runner = fetched(KERNEL, arch), Runner(ARCHES[arch])
    options = ExactOptions(cases=CASES, cpu=cpu, windows=32, rounds=1, timeout=600)
    recording = recorded(kernel, options)
    with timed(f"{KERNEL} ({arch}) on {cpu}, stepped by a debugger"):
        windows = runner.steps(kernel, options, tmp_path / "gdb")
    assert {name: _path(recording, name) for name in CASES} == windows
