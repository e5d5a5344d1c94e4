# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts as people have them: mails, other encodings, what is no text at all."""

from pathlib import Path

import pytest

from kentry.errors import UserError
from kentry.importing import text as module
from kentry.importing.reading import import_file
from kentry.importing.text import document_of
from tests.unit.importing.samples import LAT_SYSCALL, METRICS, imported, values

LINE = "Simple syscall: 0.2000 microseconds"


@pytest.mark.parametrize(
    "data",
    [
        f"Before:\r\n{LINE}\r\n".encode(),
        f"Before:\r{LINE}\r".encode(),
        f"Before:\n{LINE}\n\xb5s caf\xe9\n".encode("latin-1"),
        f"Before:\n{LINE}\n".encode("utf-16"),
        b"\xef\xbb\xbf" + f"Before:\n{LINE}\n".encode(),
        f"> > Before:\n> > {LINE}\n".encode(),
        f"\x1b[1mBefore:\x1b[0m\n\x1b]0;title\x07{LINE}\x08\n".encode(),
        f"Before:\n{LINE} &amp; more\n".encode(),
        f"Before:\n{LINE}".encode(),
    ],
)
def test_every_encoding_of_one_number(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "mail.txt"
    file.write_bytes(data)
    (number,) = import_file(file).numbers
    assert (number.side, number.written) == ("Before", "0.2000")
    assert number.text.isprintable()


def test_quoted_printable(tmp_path: Path) -> None:
    file = tmp_path / "mail.eml"
    table = METRICS.encode().replace(b"\xe2\x86\x93", b"=E2=86=93")
    header = b"Content-Transfer-Encoding: quoted-printable\n\n"
    file.write_bytes(header + table.replace(b"\xe2\x86\x91", b"=E2=86=91"))
    found = import_file(file)
    assert len(found.numbers) == 4
    assert not found.findings


def test_what_a_reply_quotes_is_there_once() -> None:
    quoted = "".join(f"> {line}\n" for line in LAT_SYSCALL.splitlines())
    assert values(LAT_SYSCALL + "\nSomeone wrote:\n" + quoted) == values(LAT_SYSCALL)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\x7fELF\0\0\0", "is not text"),
        (b"", "no number in a form"),
        (b"nothing to see here\n", "no number in a form"),
        (b"\xff" * 100, "no number in a form"),
    ],
)
def test_what_has_no_numbers(data: bytes, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(data)
    with pytest.raises(UserError, match=sentence) as caught:
        import_file(file)
    assert caught.value.remedy


def test_a_file_that_is_too_big_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    file = tmp_path / "big"
    file.write_text("x" * 11)
    with pytest.raises(UserError, match="has more than"):
        import_file(file)
    with pytest.raises(UserError, match="cannot be read"):
        import_file(tmp_path / "none")


@pytest.mark.parametrize("long", ["9" * 100_000, "1 " * 50_000, "a" * 100_000, "| " * 50_000])
def test_a_long_line_takes_no_time(long: str) -> None:
    assert len(imported(f"{LINE}\n{long}\n{long}%\n").numbers) == 1


@pytest.mark.parametrize(
    ("text", "arch"),
    [
        ("an arm64 board", "arm64"),
        ("RISC-V, riscv64", "riscv64"),
        ("a 1.5GHz Madison, ia64", "ia64"),
        ("arm64 and x86_64", ""),
        ("nothing", ""),
    ],
)
def test_the_architecture_that_a_text_names(text: str, arch: str) -> None:
    assert document_of(text, "x").arch == arch


@pytest.mark.parametrize(
    ("heading", "side"),
    [
        ("Before:", "Before"),
        ("-- baseline --", "baseline"),
        ("## After the patch", "After the patch"),
        ("kernel.switch = 1", "kernel.switch = 1"),
        ("This sentence is about something else.", ""),
        ("On Monday someone wrote:", ""),
        ("# Running 'syscall/basic' benchmark:", ""),
    ],
)
def test_headings(heading: str, side: str) -> None:
    assert values(f"{heading}\n\n$ lat_syscall null\n{LINE}\n")[0][1] == side
