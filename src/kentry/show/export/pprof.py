# SPDX-License-Identifier: GPL-2.0-or-later
"""pprof's profile.proto, packed with gzip: a value a metric, and the case as outermost function.

github.com/google/pprof/proto/profile.proto.  Two recordings are one difference as pprof -diff_base
makes it: the first one's values are negative and have the label pprof::base.
"""

import gzip
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.show.export.common import Export, printable
from kentry.show.export.stacks import CaseStacks, stacks
from kentry.show.frame import kernel_name

# Numbers of fields, by message.
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_COMMENT, _DEFAULT_SAMPLE_TYPE = 13, 14
_TYPE_NAME, _TYPE_UNIT = 1, 2
_SAMPLE_LOCATION, _SAMPLE_VALUE, _SAMPLE_LABEL = 1, 2, 3
_LABEL_KEY, _LABEL_TEXT = 1, 2
_ID = 1
_START, _LIMIT, _FILE, _BUILD_ID, _HAS_FUNCTIONS = 2, 3, 5, 6, 7
_LOCATION_MAPPING, _LOCATION_ADDRESS, _LOCATION_LINE = 2, 3, 4
_LINE_FUNCTION = 1
_FUNCTION_NAME, _FUNCTION_SYSTEM_NAME = 2, 3

_OBJECT = "[kernel.kallsyms]"
# pprof scales other units and rounds: 1.21kB.
_UNIT = "count"
_BASE = "pprof::base"


class _Place(NamedTuple):
    """An address in a function; a case is a function at no address of no recording."""

    recording: int | None
    address: int
    function: str


def export(recordings: Sequence[Recording]) -> Export:
    """One recording, or two as a difference; then only the cases that both have."""
    found = stacks(recordings).in_common()
    metrics = found.metrics
    values: dict[tuple[int, tuple[_Place, ...]], Counter[str]] = defaultdict(Counter)
    for case in found.cases:
        places = _stacks(case)
        for name in metrics:
            for position, amount in case.amounts[name].items():
                values[case.number, places[position]][name] += amount
    numbers = _Numbers()
    # The string of number 0 must be empty.
    numbers.text("")
    messages = []
    for name in metrics:
        sort = _int(_TYPE_NAME, numbers.text(name)) + _int(_TYPE_UNIT, numbers.text(_UNIT))
        messages.append(_bytes(_SAMPLE_TYPE, sort))
    for (recording, stack), costs in values.items():
        is_base = len(recordings) > 1 and recording == 0
        sample = _ints(_SAMPLE_LOCATION, [numbers.place(place) for place in stack])
        sign = -1 if is_base else 1
        sample += _ints(_SAMPLE_VALUE, [sign * costs[name] for name in metrics])
        if is_base:
            label = _int(_LABEL_KEY, numbers.text(_BASE))
            label += _int(_LABEL_TEXT, numbers.text("true"))
            sample += _bytes(_SAMPLE_LABEL, label)
        messages.append(_bytes(_SAMPLE, sample))
    for number, one in enumerate(recordings, start=1):
        addresses = [place.address for place in numbers.places if place.recording == number - 1]
        mapping = _int(_ID, number) + _int(_START, min(addresses))
        mapping += _int(_LIMIT, max(addresses) + 1) + _int(_FILE, numbers.text(_OBJECT))
        build_id = printable(one.kernel["build_id"] or "")
        mapping += _int(_BUILD_ID, numbers.text(build_id)) + _int(_HAS_FUNCTIONS, 1)
        messages.append(_bytes(_MAPPING, mapping))
        messages.append(_int(_COMMENT, numbers.text(printable(kernel_name(one.kernel)))))
    messages.append(_int(_DEFAULT_SAMPLE_TYPE, numbers.text(INSTRUCTIONS)))
    messages += numbers.messages()
    # Without the time, so that the same recordings make the same file.
    return Export("", found.notes, gzip.compress(b"".join(messages), mtime=0))


def _stacks(case: CaseStacks) -> list[tuple[_Place, ...]]:
    """The stack at each position, the innermost first."""
    outermost = _Place(None, 0, case.name)
    found = []
    for position in range(len(case.path)):
        code = [case.path[at] for at, _ in case.frames(position)]
        inner = (_Place(case.number, insn.address, insn.function) for insn in code)
        found.append((*inner, outermost))
    return found


class _Numbers:
    """The tables of strings, functions and locations, filled as they are needed."""

    def __init__(self) -> None:
        self.places: dict[_Place, int] = {}
        self._texts: dict[str, int] = {}
        self._functions: dict[str, int] = {}

    def text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def place(self, place: _Place) -> int:
        self._functions.setdefault(place.function, len(self._functions) + 1)
        return self.places.setdefault(place, len(self.places) + 1)

    def messages(self) -> list[bytes]:
        found = []
        for place, number in self.places.items():
            mapping = 0 if place.recording is None else place.recording + 1
            line = _int(_LINE_FUNCTION, self._functions[place.function])
            location = _int(_ID, number) + _int(_LOCATION_MAPPING, mapping)
            location += _int(_LOCATION_ADDRESS, place.address) + _bytes(_LOCATION_LINE, line)
            found.append(_bytes(_LOCATION, location))
        for name, number in self._functions.items():
            function = _int(_ID, number) + _int(_FUNCTION_NAME, self.text(name))
            function += _int(_FUNCTION_SYSTEM_NAME, self.text(name))
            found.append(_bytes(_FUNCTION, function))
        return found + [_bytes(_STRING, text.encode()) for text in self._texts]


# --- protobuf's encoding (protobuf.dev/programming-guides/encoding) -----------


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _int(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _ints(field: int, numbers: Sequence[int]) -> bytes:
    return _bytes(field, b"".join(map(_varint, numbers)))
