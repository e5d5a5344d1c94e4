# SPDX-License-Identifier: GPL-2.0-or-later
"""What a small file can make kentry do: each is refused in a sentence, in 3 GiB and a minute.

The kernel holds the minute and says how much memory there was.  It does not hold the memory: at
such a limit an allocation fails, and what asks for too much would look like what is damaged.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import os
import struct
import subprocess
import sys
import tarfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from kentry.boot.initramfs import Entry
from kentry.boot.initramfs import archive as archive_of
from kentry.boot.plugin_trace import MOST_BYTES
from kentry.cli import main
from kentry.errors import EXIT_DONE, EXIT_MISTAKE
from tests import ROOT
from tests.unit.kernels import fakes

GOLDEN = ROOT / "tests" / "golden" / "arm64-6.12.json"
MIB = 1 << 20
LIMITS = ("prlimit", "--cpu=60", "--core=0")
MOST_MIB = 3 << 10

pytestmark = pytest.mark.slow


def zeros(mib: int, before: bytes = b"") -> bytes:
    """A gzip file of `before` and then `mib` MiB of zeros, made of one block again and again."""
    pack = zlib.compressobj(9, wbits=31)
    first = pack.compress(before) + pack.flush(zlib.Z_FULL_FLUSH)
    # The first has a window without zeros in it; all that follow are the same.
    block = [pack.compress(bytes(MIB)) + pack.flush(zlib.Z_FULL_FLUSH) for _ in range(2)]
    return first + block[0] + block[1] * (mib - 1) + pack.flush()


def heading(name: str, kind: bytes, size: int) -> bytes:
    one = tarfile.TarInfo(name)
    one.type, one.size = kind, size
    return one.tobuf(tarfile.GNU_FORMAT)


ABOUT = b"Package: linux-image-6.12.0-1-arm64\nVersion: 6.12.1-1\nArchitecture: arm64\n"


def package(control: bytes, data: bytes) -> Callable[[Path], list[str]]:
    """A .deb of these two, compressed by gzip."""
    parts = {"debian-binary": b"2.0\n", "control.tar.gz": control, "data.tar.gz": data}

    def words(folder: Path) -> list[str]:
        fakes.ar(folder / "kernel.deb", parts)
        return ["record", f"deb:{folder / 'kernel.deb'}", "--arch", "arm64", "--case", "getppid"]

    return words


def archive(content: bytes) -> bytes:
    return gzip.compress(heading("./control", b"0", len(content)) + content.ljust(1024, b"\0"))


def rpm(folder: Path) -> list[str]:
    size = 4096 * MIB - 4096
    [head, *_] = archive_of([(Entry("./large", 1, 0o100644, size), [])])
    # A frame after the other.
    before = zstandard.compress(head) + 4095 * zstandard.compress(bytes(MIB))
    before += zstandard.compress(bytes(MIB - 4096))
    files = {"./lib/modules/1/vmlinuz": b"no kernel"}
    file = fakes.rpm(folder / "kernel.rpm", files, "zstd", before)
    return ["record", f"rpm:{file}", "--arch", "arm64", "--case", "getppid"]


def rising(count: int) -> bytes:
    return struct.pack(f"<{count}I", *range(count))


def with_tables(many: int, before: bytes) -> bytes:
    """An image with many tables of tokens, and of what might be the markers before them."""
    table = fakes.kallsyms(fakes.BASE)
    tokens = table[table.index(b"xx\0xx\0") :]
    return fakes.image(content=fakes.body(symbols=False) + before + many * tokens)


def sparse(folder: Path) -> list[str]:
    # Beside the folder, in which nothing large may stay.
    image = folder.with_suffix(".sparse")
    with image.open("wb") as file:
        file.truncate(4 << 30)
    return ["record", f"image:{image}", "--arch", "arm64"]


def layers(many: int, content: bytes) -> Callable[[], bytes]:
    def made() -> bytes:
        packed = content
        for _ in range(many):
            packed = gzip.compress(packed, 0)
        return gzip.compress(packed)

    return made


def bomb(*program: str) -> Callable[[], bytes]:
    """4 GiB of zeros behind an image's first bytes, by a program that compresses."""

    def made() -> bytes:
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pack:
            assert pack.stdin and pack.stdout
            packed: list[bytes] = []
            out = pack.stdout
            reader = threading.Thread(target=lambda: packed.append(out.read()))
            reader.start()
            pack.stdin.write(b"MZ" + bytes(62))
            for _ in range(4096):
                pack.stdin.write(bytes(MIB))
            pack.stdin.close()
            reader.join()
        return packed[0]

    return made


def image(content: Callable[[], bytes]) -> Callable[[Path], list[str]]:
    def words(folder: Path) -> list[str]:
        spec = f"image:{put(folder, 'Image', content())}"
        return ["record", spec, "--arch", "arm64", "--case", "getppid"]

    return words


def mail(text: bytes) -> Callable[[Path], list[str]]:
    """A mail that begins with the text, with a patch below it that is cut short."""
    diff = b"\n\ndiff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1,9 @@\n-a\n+b\n"
    return lambda folder: ["series", "source:6.12", str(put(folder, "a.patch", text + diff))]


def put(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def budgets(text: str) -> Callable[[Path], list[str]]:
    def words(folder: Path) -> list[str]:
        file = put(folder, "budgets.toml", text.encode())
        return ["check", str(GOLDEN), "--budget", str(file)]

    return words


def report(content: Callable[[], bytes]) -> Callable[[Path], list[str]]:
    def words(folder: Path) -> list[str]:
        file = put(folder, "one.json", content())
        return ["report", str(file), "-o", str(folder / "page.html")]

    return words


def mails() -> bytes:
    one = (
        "From a@b Thu Jan  1 00:00:00 1970\nFrom: A <a@b>\nSubject: [PATCH {}/100000] x\n\n---\n\n"
    )
    return "".join(one.format(number) for number in range(100_000)).encode()


def golden(old: str, new: str) -> bytes:
    text = GOLDEN.read_text()
    assert old in text
    return text.replace(old, new, 1).encode()


def arrays(number: int) -> bytes:
    return b'{"schema":"kentry/recording/1","x":[' + b"[]," * (number - 1) + b"[]]}"


def quilt(size: int, times: int) -> Callable[[Path], list[str]]:
    def words(folder: Path) -> list[str]:
        diff = b"--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-a\n+b\n"
        put(folder, "a.patch", b"x" * (size - len(diff) - 1) + b"\n" + diff)
        put(folder, "series", b"a.patch\n" * times)
        return ["series", "source:6.12", str(folder)]

    return words


MEMBER = b"a/              0           0     0     100644  0         `\n"


def lzma_of_4_gib() -> bytes:
    """Zeros in the older format, whose head has the size of the dictionary."""
    packed = lzma.compress(bytes(MIB), lzma.FORMAT_ALONE)
    return packed[:1] + struct.pack("<I", (1 << 32) - 1) + packed[5:]


INPUTS: dict[str, Callable[[Path], list[str]]] = {
    "an image that gunzip unpacks to 4 GiB": image(lambda: zeros(4096, b"MZ" + bytes(62))),
    "an image that unxz unpacks to 4 GiB": image(bomb("xz", "-0", "-T2", "-c")),
    "an image that bunzip2 unpacks to 4 GiB": image(bomb("bzip2", "-1", "-c")),
    "an image that unzstd unpacks to 4 GiB": image(bomb("zstd", "-1", "-c")),
    "an image that lz4 unpacks to 4 GiB": image(bomb("lz4", "-1", "-c")),
    "an image that lzop unpacks to 4 GiB": image(bomb("lzop", "-1", "-c")),
    "a package with a kernel of 4 GiB": package(
        archive(ABOUT), zeros(4097, heading("./boot/vmlinuz-6.12.0-1-arm64", b"0", 4 << 30))
    ),
    "a package whose name of a file has 5 GiB": package(
        zeros(5120, heading("././@LongLink", b"L", 5 << 30)), b""
    ),
    "a package with an extended header of 5 GiB": package(
        archive(ABOUT), zeros(5120, heading("./x", b"x", 5 << 30))
    ),
    "a package that says a million things of itself": package(archive(b"a: b\n" * 400_000), b""),
    "a package of 40 kernels": package(
        archive(ABOUT),
        gzip.compress(
            b"".join(heading(f"./boot/vmlinuz-{n}", b"0", 512) + b"1" * 512 for n in range(40))
        ),
    ),
    "a package with a file of 2 GiB before the kernel": package(
        archive(ABOUT), zeros(2048, heading("./a", b"0", 2 << 30))
    ),
    "an RPM package with a file of 4 GiB before the kernel": rpm,
    "a package of 300,000 files": package(
        archive(ABOUT), gzip.compress(heading("./a", b"0", 0) * 300_000, 1)
    ),
    "an image with many tables of tokens": image(lambda: with_tables(1 << 14, b"")),
    "an image with many markers": image(lambda: with_tables(1, rising(400) * 3000)),
    "an image of 4 GiB without a content": sparse,
    "an image that is compressed 12 times": image(layers(12, bytes(64 << 20))),
    "an image that is compressed 600 times": image(layers(600, b"x")),
    "JSON of 130 MiB": report(lambda: b"{" + b" " * (130 * MIB)),
    "JSON of 8 million empty arrays": report(lambda: arrays((8 << 20) - 9)),
    "JSON of 40 million empty arrays": report(lambda: arrays(40_000_000)),
    "JSON that is nested 200,000 times": report(lambda: b'{"schema":' + b"[" * 200_000),
    "a number that is not finite": report(lambda: golden('"seed": 1', '"seed": 1e999')),
    "a number of 4,000 digits": report(lambda: golden('"times": 256', f'"times": 256{"0" * 4000}')),
    "a key that is dotted 20,000 times": budgets("[arm64]\n" + "a." * 20_000 + "a = 1\n"),
    "20,000 tables in each other": budgets(f"[{'.'.join('a' * 20_000)}]\nx = 1\n"),
    "a string of arrays": budgets("x = " + "[" * 20_000),
    "a quilt series of 64 MiB, 64 times": quilt(64 * MIB, 64),
    "a quilt series of a patch 100,000 times": quilt(100, 100_000),
    "a package of a million members": lambda folder: [
        *(
            "record",
            f"deb:{put(folder, 'a.deb', b'!<arch>' + chr(10).encode() + MEMBER * 1_000_000)}",
        ),
        *("--case", "getppid"),
    ],
    "an image that asks unxz for a dictionary of 4 GiB": image(lzma_of_4_gib),
    "100,000 mails": lambda folder: ["series", "source:6.12", str(put(folder, "a.mbox", mails()))],
    "a table of 64 MiB in one line": lambda folder: [
        *("import", str(put(folder, "a.csv", b"case,ns\n" + b"a," * (32 * MIB)))),
    ],
    "an ELF file whose sections are beyond it": lambda folder: [
        *("record", f"image:{put(folder, 'vmlinux', elf())}", "--arch", "arm64"),
        *("--case", "getppid"),
    ],
    "an ELF file whose segments are each the whole file": lambda folder: [
        *("record", f"image:{put(folder, 'vmlinux', overlapping())}", "--arch", "arm64"),
        *("--case", "getppid"),
    ],
    "an ELF file whose notes are each the whole file": lambda folder: [
        *(
            "record",
            f"image:{put(folder, 'vmlinux', overlapping(4))}",
            "--arch",
            "arm64",
        ),
        *("--case", "getppid"),
    ],
    "a subject of 300 KB that does not end": mail(b"[" + b"PATCH" * 60_000),
    "a mail whose header has 40 MB": mail(b"a:\n" * (13 << 20)),
    "a cost table of 60,000 dots": lambda folder: [
        *("vector", "costs", str(put(folder, "costs.toml", b"a." * 60_000 + b"a = 1"))),
    ],
    "2,000 headings of blanks": lambda folder: [
        *("import", str(put(folder, "a.csv", (b"x,a" + b"\t" * 1300 + b"((\n") * 2000))),
    ],
    "options without end": lambda folder: [
        *("ablate", "source:6.12", "--arch", "riscv64", "--options", "/dev/zero"),
    ],
    "a store's object that unpacks to 4 GiB": lambda folder: store(folder),
}


def elf() -> bytes:
    far = (1 << 63) + 64
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    return head + struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, 0, 64, far, 0, 64, 56, 1, 64, 65535, 1)


def overlapping(kind: int = 1) -> bytes:
    """16 MiB, 60,000 times: as segments to load, or all but the first of that kind."""
    count, size = 60_000, 16 << 20
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, 0, 64, 0, 0, 64, 56, count, 64, 0, 0)
    first, others = (
        struct.pack("<IIQQQQQQ", number, 5, 0, 1 << 63, 0, size, size, 8) for number in (1, kind)
    )
    return (head + first + (count - 1) * others).ljust(size, b"\0")


def store(folder: Path) -> list[str]:
    place = folder / "store"
    added = ["store", "add", str(place), str(GOLDEN), "-q"]
    subprocess.run([sys.executable, "-m", "kentry", *added], check=True, stdout=subprocess.DEVNULL)
    [file] = (place / "objects").rglob("*.gz")
    assert gzip.decompress(file.read_bytes())
    file.write_bytes(zeros(4096))
    return ["store", "verify", str(place)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))


# A link of itself in the place of each file or folder that a command takes.
LOOPS = (
    *("report {golden} -o loop", "report loop -o page.html", "diff loop loop", "log loop"),
    *("record debian:6.12 --arch arm64 -o no/loop", "record image:loop --arch arm64"),
    *("record deb:loop", "record tree:loop --arch arm64", "import loop", "vector stats loop"),
    *("store add loop {golden}", "store export loop there", "history loop -o there"),
    *("series tree:loop loop", "bisect --tree loop --good a --bad b --case read"),
    *("check {golden} --budget loop", "check {golden} --budget budgets.toml"),
    *("run debian:6.12 --copy loop -- true", "vector replay loop --costs loop"),
)


@pytest.mark.parametrize("line", LOOPS)
@pytest.mark.parametrize("cache", ["cache", "loop"])
def test_links_in_a_circle_are_refused(
    line: str, cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / cache))
    (tmp_path / "loop").symlink_to("loop")
    put(tmp_path, "budgets.toml", b'[baseline]\narm64 = "loop"\n')
    words = line.format(golden=GOLDEN).split()
    said, printed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
        code = main(words)
    assert "kentry failed" not in said.getvalue()
    # What is written takes the link's place.
    assert code == EXIT_DONE if (tmp_path / "loop").is_file() else code == EXIT_MISTAKE


def within_limits(argv: list[str], folder: Path) -> tuple[int, str]:
    """The exit code of Python with these words, and what it said, in a minute and 3 GiB."""
    with (folder / "said").open("w") as said:
        words = [*LIMITS, sys.executable, *argv]
        started = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    assert used.ru_maxrss >> 10 < MOST_MIB
    return started.returncode, (folder / "said").read_text()


@pytest.mark.parametrize("more", [0, 1])
def test_a_trace_is_read_up_to_its_limit_and_refused_beyond(more: int, tmp_path: Path) -> None:
    # No line takes more memory for each of its bytes, and the plugin writes no longer path.
    runs = (1 << 20) * " 0+1"
    head, end = "kentry-trace 2\ninsn 0 0 00 x\n", "end 0\n"
    paths = (f"path {at} {1 << 20}{runs}\n" for at in range(MOST_BYTES // len(runs) - 1))
    text = head + "".join(paths)
    filler = "message x" + " " * (MOST_BYTES + more - len(text) - len(end) - 10) + "\n"
    put(tmp_path, "trace", f"{text}{filler}{end}".encode())
    program = "import sys, pathlib; from kentry.boot.plugin_trace import parse_trace; "
    code, text = within_limits(
        ["-c", f"{program}parse_trace(pathlib.Path(sys.argv[1]))", str(tmp_path / "trace")],
        tmp_path,
    )
    assert (code, "MiB" in text) == ((1, True) if more else (0, False)), text[-500:]


def test_many_elf_files_in_an_image_are_looked_for_once(tmp_path: Path) -> None:
    """None of them has one of the build IDs in it that are behind them all."""
    head = b"\x7fELF\x02\x01\x01".ljust(40, b"\0") + struct.pack("<Q10xHH", 64, 1, 1)
    note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"
    notes = b"".join(note + number.to_bytes(20, "big") for number in range(100_000))
    file = put(tmp_path, "image", bytes(64) + head * 100_000 + notes)
    program = "import sys, pathlib; from kentry.kernels.payload import build_id; "
    words = [f"{program}assert not build_id(pathlib.Path(sys.argv[1]).read_bytes())", str(file)]
    assert within_limits(["-c", *words], tmp_path) == (0, "")


@pytest.mark.parametrize("what", INPUTS)
def test_a_small_file_costs_little_and_is_refused(what: str, tmp_path: Path) -> None:
    code, text = within_limits(["-m", "kentry", *INPUTS[what](tmp_path)], tmp_path)
    assert code == EXIT_MISTAKE, (code, text[-2000:])
    assert "Traceback" not in text and "kentry failed" not in text
    # Nothing large stays behind.
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 200 * MIB
