# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings with events, and code spelled as functions with the places a path goes through."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kentry.arch import Arch
from kentry.path.events import EventCounter
from kentry.results.recording import Instruction, Recording, VectorEvent

# As find_markers() names them for a riscv64 kernel with a vector unit.
MARKERS = {
    "trap": "entry of riscv_v_first_use_handler",
    "discard": "vmv.v.i v0,-1",
    "save": "vse8.v v24,(rs)",
    "restore": "vle8.v v24,(rs)",
}


def with_events(
    recording: Recording,
    events: Mapping[str, Sequence[VectorEvent]],
    markers: Mapping[str, str] | None = None,
) -> Recording:
    """The recording with these events on the modal paths of the cases named."""
    cases = [
        replace(
            case,
            paths=tuple(
                replace(path, events=tuple(events.get(case.name, ()))) for path in case.paths
            ),
        )
        for case in recording.cases
    ]
    return replace(recording, cases=cases, markers=dict(MARKERS if markers is None else markers))


class Program:
    """Functions 0x1000 bytes apart; an instruction is (its bytes in memory order, its text)."""

    def __init__(self, functions: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        self.code: list[Instruction] = []
        self._first: dict[str, int] = {}
        for number, (name, instructions) in enumerate(functions.items()):
            self._first[name] = len(self.code)
            address = 0xFFFFFFFF80000000 + 0x1000 * number
            offset = 0
            for code, text in instructions:
                self.code.append(Instruction(address + offset, code, text, name, offset))
                offset += len(code) // 2

    def path(self, *places: str) -> list[int]:
        """Indexes into the code: "main:1" is main's second instruction, "main:1-3" a run."""
        found: list[int] = []
        for place in places:
            name, _, run = place.rpartition(":")
            first, _, last = run.partition("-")
            start = self._first[name]
            found += range(start + int(first), start + int(last or first) + 1)
        return found

    def events(self, arch: Arch, *places: str) -> list[VectorEvent]:
        """What is counted on that path where the kernel has every marker of the architecture."""
        counter = EventCounter(arch.vector.markers, arch, self.code)
        return list(counter.count(self.path(*places)))


# ns a call, as an arm64 kernel of 6.12's policy would have them.
ARM = {
    "syscall-never": 200,
    "syscall-once": 214,
    "syscall-each": 216,
    "use": 2,
    "trip-never": 4000,
    # Two traps of 800, four flushes of 14, two uses.
    "trip-each": 4000 + 1600 + 56 + 4,
    "trip-once": 4000,
    "first-use": 1100,
    "gap-never": 5000,
    "gap-each": 5062,
    "copy-nothing": 1,
    "copy-save": 31,
    "copy-restore": 41,
    "copy-small_save": 21,
    "copy-small_restore": 22,
    "copy-kept_load": 9,
}


def printed(arch: str, values: dict[str, int], rounds: int = 10, bits: int = 128) -> str:
    """A run of the program in which every block has its measure's value."""
    lines = [f"kentry-costs start {arch} bits={bits} cpu=0 rounds={rounds} calls=100"]
    lines.append("kentry-costs release 6.12.1")
    for _ in range(rounds):
        lines += [f"kentry-costs block {name} 100 {100 * ns}" for name, ns in values.items()]
    return "\n".join([*lines, f"kentry-costs end blocks={rounds * len(values)}"])
