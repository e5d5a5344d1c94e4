# SPDX-License-Identifier: GPL-2.0-or-later
"""Files through a board's shell, where the shell's console is the only way.

A serial console is slow and may lose a byte, or get a message of the kernel's between two: files
go packed, in pieces that fit on a line, and each is believed once its checksum is right.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol

from kentry.errors import MachineError

# What the board's shell is asked for; all of them are in busybox and in coreutils.
TOOLS = ("base64", "gzip", "sha256sum", "timeout", "od", "dmesg")

# A shell that edits its line takes 1024 characters (busybox), and labgrid's words go with ours.
LINE_CHARACTERS = 512
# Bytes of a piece fetched: some seconds at 115200 baud.
_PIECE_BYTES = 8192
# What is not worth packing.
_SMALL_BYTES = 1024
# Seconds for a piece, enough at 9600 baud; and for what takes a moment.
_PIECE_SECONDS = 90.0
MOMENT = 60.0

_TRIES = 3


class Shell(Protocol):
    """A shell on a machine."""

    @property
    def name(self) -> str:
        """The machine's, as the user wrote it."""

    def run(self, command: str, timeout: float) -> tuple[list[str], int]:
        """The lines that a line of shell printed, and its status; MachineError."""


def find_tools(shell: Shell) -> frozenset[str]:
    """Which of TOOLS there are."""
    command = f"for t in {' '.join(TOOLS)}; do command -v $t >/dev/null && echo have $t; done"
    lines, _ = shell.run(command, MOMENT)
    found = {line.removeprefix("have ").strip() for line in lines if line.startswith("have ")}
    return frozenset(found & set(TOOLS))


def put(shell: Shell, tools: frozenset[str], data: bytes, path: str) -> None:
    """Writes `data` to the file `path`, which no other word of a shell's is in."""
    for _ in range(_TRIES):
        _write(shell, tools, data, path)
        if is_whole(shell, tools, data, path):
            return
    raise _not_whole(shell, path, "to")


def is_whole(shell: Shell, tools: frozenset[str], data: bytes, path: str) -> bool:
    """Whether the file there has this content, as far as the board can tell."""
    return _facts(shell, tools, path) == _facts_of(tools, data)


def get(shell: Shell, tools: frozenset[str], path: str) -> bytes:
    """What is in the file `path`; MachineError where it cannot be had whole."""
    facts = _facts(shell, tools, path)
    if not facts[0]:
        return b""
    packed = "gzip" in tools and facts[0] > _SMALL_BYTES
    for _ in range(_TRIES):
        data = _read(shell, tools, path, packed)
        if data is not None and _facts_of(tools, data) == facts:
            return data
    raise _not_whole(shell, path, "from")


def _not_whole(shell: Shell, path: str, direction: str) -> MachineError:
    return MachineError(
        f"{path} did not get {direction} {shell.name} whole in {_TRIES} tries.",
        "Is there space, and is the console quiet? A place with an SSHDriver does not use it.",
    )


def _facts(shell: Shell, tools: frozenset[str], path: str) -> tuple[int, str]:
    """A file's length in bytes, 0 where there is none, and its SHA-256, "" where not known."""
    there = f"if [ -f {path} ]; then wc -c <{path}; else echo 0; fi"
    lines, _ = shell.run(there, MOMENT)
    size = next((int(line) for line in lines if line.strip().isdecimal()), 0)
    if "sha256sum" not in tools or not size:
        return size, ""
    lines, _ = shell.run(f"sha256sum <{path}", MOMENT)
    return size, next((word for line in lines for word in _HASH.findall(line)), "?")


_HASH = re.compile(r"\b[0-9a-f]{64}\b")


def _facts_of(tools: frozenset[str], data: bytes) -> tuple[int, str]:
    known = "sha256sum" in tools and data
    return len(data), hashlib.sha256(data).hexdigest() if known else ""


# --- there --------------------------------------------------------------------------------


def _write(shell: Shell, tools: frozenset[str], data: bytes, path: str) -> None:
    packed = "gzip" in tools
    if packed:
        data = gzip.compress(data, mtime=0)
    unpack = "gzip -dc" if packed else "cat"
    if "base64" in tools:
        text = base64.b64encode(data).decode()
        pieces = _pieces(text, LINE_CHARACTERS)
        commands = [f"echo {piece} >>{path}.in" for piece in pieces]
        last = f"base64 -d <{path}.in | {unpack} >{path}"
    else:
        # Four characters a byte, and the quotes around the whole.
        text = "".join(f"\\{byte:03o}" for byte in data)
        commands = [f'printf "{piece}" >>{path}.in' for piece in _pieces(text, LINE_CHARACTERS)]
        last = f"{unpack} <{path}.in >{path}"
    for command in [f"rm -f {path} {path}.in", *commands, f"{last}; rm -f {path}.in"]:
        shell.run(command, _PIECE_SECONDS)


def _pieces(text: str, length: int) -> list[str]:
    return [text[at : at + length] for at in range(0, len(text), length)]


# --- back ---------------------------------------------------------------------------------


def _read(shell: Shell, tools: frozenset[str], path: str, packed: bool) -> bytes | None:
    """The content, as far as it came; None where it is certainly not whole."""
    source = path
    if packed:
        source = f"{path}.gz"
        shell.run(f"gzip -c <{path} >{source}", MOMENT)
    decode, encoder = _encoding(shell, tools)
    size = _facts(shell, frozenset(), source)[0]
    pieces = []
    for number in range(-(-size // _PIECE_BYTES)):
        length = min(_PIECE_BYTES, size - number * _PIECE_BYTES)
        cut = f"dd if={source} bs={_PIECE_BYTES} skip={number} count=1 2>/dev/null"
        pieces.append(_piece(shell, f"{cut} | {encoder}", decode, length))
    data = b"".join(pieces)
    if not packed:
        return data
    shell.run(f"rm -f {source}", MOMENT)
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return None


def _encoding(
    shell: Shell, tools: frozenset[str]
) -> tuple[Callable[[Sequence[str]], bytes | None], str]:
    if "base64" in tools:
        return _from_base64, "base64"
    if "od" in tools:
        return _from_hex, "od -An -v -tx1"
    raise MachineError(
        f"{shell.name} has neither base64 nor od, so no file can be had from it.",
        "Put one of them (busybox has both) on its PATH.",
    )


def _piece(
    shell: Shell,
    command: str,
    decode: Callable[[Sequence[str]], bytes | None],
    length: int,
) -> bytes:
    """One piece, asked for again where it is not `length` bytes; b"" where that does not help."""
    for _ in range(_TRIES):
        lines, _ = shell.run(command, _PIECE_SECONDS)
        data = decode(lines)
        if data is not None and len(data) == length:
            return data
    return b""


def _from_base64(lines: Sequence[str]) -> bytes | None:
    try:
        return base64.b64decode("".join(line.strip() for line in lines), validate=True)
    except binascii.Error:
        return None


def _from_hex(lines: Sequence[str]) -> bytes | None:
    try:
        return bytes.fromhex(" ".join(lines))
    except ValueError:
        return None
