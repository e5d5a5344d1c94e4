# SPDX-License-Identifier: GPL-2.0-or-later
"""Files over a board's console, for a board that can be reached in no other way.

A serial console is slow, may lose a byte, and may show a message of the kernel between two: files
go packed, in pieces that fit on a line, and count as transferred when their checksum is right.
labgrid's ShellDriver transfers files by XMODEM, for which a board needs lrzsz; few have it.
"""

import base64
import binascii
import gzip
import hashlib
import re
import zlib
from typing import Protocol

from kentry.errors import MachineError

# What the board's shell must have; busybox and coreutils have all of them.
TOOLS = ("base64", "gzip", "sha256sum", "timeout")

# A shell that edits its line takes 1024 characters (busybox), and labgrid's words go with ours.
LINE_CHARACTERS = 512
# Bytes of a piece fetched: some seconds at 115200 baud.
_PIECE_BYTES = 8192
# Seconds for a piece, enough at 9600 baud; and for what takes a moment.
_PIECE_SECONDS = 90.0
MOMENT = 60.0

_TRIES = 3
_SHA256 = re.compile(r"\b[0-9a-f]{64}\b")


class Shell(Protocol):
    """A shell on the machine that the user calls `name`."""

    name: str

    def run(self, command: str, timeout: float) -> tuple[list[str], int]:
        """The lines that a line of shell printed, and its status; MachineError."""


def check_tools(shell: Shell) -> None:
    """MachineError unless the board has TOOLS."""
    command = f"for t in {' '.join(TOOLS)}; do command -v $t >/dev/null || echo lacks $t; done"
    lines, _ = shell.run(command, MOMENT)
    missing = [line.removeprefix("lacks ").strip() for line in lines if line.startswith("lacks ")]
    if missing:
        raise MachineError(
            f"{shell.name} has no {' and no '.join(missing)}, so files cannot go over its console.",
            "Put them on its PATH (busybox has all), or give the place an SSHDriver.",
        )


def put(shell: Shell, data: bytes, path: str) -> None:
    """Writes `data` to the file `path`, whose name has no character that a shell reads."""
    text = base64.b64encode(gzip.compress(data, mtime=0)).decode()
    for _ in range(_TRIES):
        shell.run(f"rm -f {path} {path}.in", MOMENT)
        for at in range(0, len(text), LINE_CHARACTERS):
            piece = text[at : at + LINE_CHARACTERS]
            shell.run(f"echo {piece} >>{path}.in", _PIECE_SECONDS)
        unpack = f"base64 -d <{path}.in | gzip -dc >{path}; rm -f {path}.in"
        shell.run(unpack, _PIECE_SECONDS)
        if _checksum(shell, path) == hashlib.sha256(data).hexdigest():
            return
    raise _not_whole(shell, path, "to")


def get(shell: Shell, path: str) -> bytes:
    """What is in the file `path`, b"" where there is none; MachineError if it does not arrive."""
    checksum = _checksum(shell, path)
    if not checksum:
        return b""
    shell.run(f"gzip -c <{path} >{path}.gz", MOMENT)
    lines, _ = shell.run(f"wc -c <{path}.gz", MOMENT)
    size = next((int(line) for line in lines if line.strip().isdecimal()), 0)
    for _ in range(_TRIES):
        packed = b"".join(
            _piece(shell, f"{path}.gz", at, min(_PIECE_BYTES, size - at))
            for at in range(0, size, _PIECE_BYTES)
        )
        try:
            data = gzip.decompress(packed)
        except (OSError, EOFError, zlib.error):
            continue
        if hashlib.sha256(data).hexdigest() == checksum:
            shell.run(f"rm -f {path}.gz", MOMENT)
            return data
    raise _not_whole(shell, path, "from")


def _piece(shell: Shell, path: str, at: int, length: int) -> bytes:
    """One piece, fetched again where it has another length; b"" where that does not help."""
    cut = f"dd if={path} bs={_PIECE_BYTES} skip={at // _PIECE_BYTES} count=1 2>/dev/null"
    for _ in range(_TRIES):
        lines, _ = shell.run(f"{cut} | base64", _PIECE_SECONDS)
        try:
            data = base64.b64decode("".join(line.strip() for line in lines), validate=True)
        except binascii.Error:
            continue
        if len(data) == length:
            return data
    return b""


def _checksum(shell: Shell, path: str) -> str:
    """A file's SHA-256; "" where there is none, "?" where it cannot be told."""
    lines, _ = shell.run(f"if [ -f {path} ]; then sha256sum <{path}; else echo none; fi", MOMENT)
    if any(line.strip() == "none" for line in lines):
        return ""
    return next((word for line in lines for word in _SHA256.findall(line)), "?")


def _not_whole(shell: Shell, path: str, direction: str) -> MachineError:
    return MachineError(
        f"{path} did not get {direction} {shell.name} whole in {_TRIES} tries.",
        "Is there space, and is the console quiet? A place with an SSHDriver does not use it.",
    )
