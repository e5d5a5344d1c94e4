# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings with events, and code spelled as functions with the places a path goes through."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kentry.arch import Arch
from kentry.model.recording import Event, Instruction, Recording
from kentry.vector.events import EventCounter, Markers

# As find_markers() names them for a riscv64 kernel with a vector unit.
MARKERS = {
    "trap": "entry of riscv_v_first_use_handler",
    "discard": "vmv.v.i v0,-1",
    "save": "vse8.v v24,(rs)",
    "restore": "vle8.v v24,(rs)",
}


def with_events(
    recording: Recording,
    events: Mapping[str, Sequence[Event]],
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

    def events(self, arch: Arch, *places: str) -> list[Event]:
        """What is counted on that path where the kernel has every marker of the architecture."""
        markers = Markers(arch.vector.markers, ())
        counter = EventCounter(markers, arch.vector, arch.calls, self.code)
        return list(counter.count(self.path(*places)))
