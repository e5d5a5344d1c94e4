# SPDX-License-Identifier: GPL-2.0-or-later
"""What is in a .deb or .rpm file.  No path in it becomes one of this machine, but by extract()."""

import bz2
import contextlib
import gzip
import io
import itertools
import lzma
import os
import re
import shutil
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from kentry.errors import UserError

# A vmlinux with debug info has half of it; bytes.
_MOST_FILE = 1 << 30
# All that a package unpacks to: one with debug info has 6 GB and 10,000 files.
_MOST_UNPACKED, _MOST_FILES = 16 << 30, 1 << 18
# xz -9 has a dictionary of 64 MiB; the format's largest is 4 GiB.  Bytes.
MOST_DICTIONARY = 256 << 20
# What a package says of itself, and a long name; bytes.
_MOST_TEXT = 1 << 20
# A .deb has three members, or a signature more: deb(5).
_MOST_MEMBERS = 64
# What is read at a time; bytes.
_PIECE = 1 << 16
_TEXTS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
# What readers raise for a damaged file, beside an OSError without a number; rpmfile, an Exception.
_DAMAGED = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


class _Xz(io.RawIOBase):
    """What a stream of xz or lzma unpacks to, which lzma.open() reads with any dictionary."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decompressor = lzma.LZMADecompressor(memlimit=MOST_DICTIONARY)
        self._position = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        unpacked = b""
        while not unpacked and not self._decompressor.eof:
            hungry = self._decompressor.needs_input
            packed = self._stream.read(_PIECE) if hungry else b""
            if hungry and not packed:
                raise EOFError("it is cut short")
            unpacked = self._decompressor.decompress(packed, len(buffer))
        buffer[: len(unpacked)] = unpacked
        self._position += len(unpacked)
        return len(unpacked)


# What reads each form of a part of a .deb, and of an .rpm, a piece at a time.  tarfile's own
# streams keep all that 10 KiB unpack to, 60 MiB of zeros, and copy it for each 10 KiB of that.
_READERS: dict[str, Callable[[Any], Any]] = {
    "": contextlib.nullcontext,
    **dict.fromkeys(("bz2", "bzip2"), bz2.open),
    **dict.fromkeys(("gz", "gzip"), gzip.open),
    **dict.fromkeys(("xz", "lzma"), lambda stream: io.BufferedReader(_Xz(stream), _PIECE)),
    **dict.fromkeys(
        ("zst", "zstd"),
        lambda it: zstandard.ZstdDecompressor().stream_reader(it, read_across_frames=True),
    ),
}


class _Member(tarfile.TarInfo):
    """A member of which tarfile reads no long name and no extended header without a bound."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size > _MOST_TEXT and self.type in _TEXTS:
            raise tarfile.ReadError("a header of more than 1 MiB")
        members: list[tarfile.TarInfo] = tar.members  # type: ignore[attr-defined]
        _check_all(self.offset + self.size, len(members))
        return cast(tarfile.TarInfo, super()._proc_member(tar))  # type: ignore[misc]


def _check_all(size: int, files: int) -> None:
    if size > _MOST_UNPACKED or files > _MOST_FILES:
        most = f"{_MOST_UNPACKED >> 30} GiB or {_MOST_FILES:,} files"
        raise tarfile.ReadError(f"it unpacks to more than {most}")


def _check_members(file: IO[bytes]) -> None:
    """Raise ValueError where an ar archive has too many members; leaves the file at its start."""
    file.seek(len(b"!<arch>\n"))
    for _ in range(_MOST_MEMBERS):
        # The size is at 48, ten decimal digits; a member begins at an even byte: ar(5).
        if not (heading := file.read(60)):
            file.seek(0)
            return
        file.seek(-(-int(heading[48:58]) // 2) * 2, os.SEEK_CUR)
    raise ValueError("more members than a package has")


@contextlib.contextmanager
def file_tree(deb: Path, remedy: str, part: str = "data.tar") -> Iterator[tarfile.TarFile]:
    """Stream a part of a .deb; UserError, with `remedy`, where it is none, or damaged."""
    from debian.arfile import ArError, ArFile

    with ExitStack() as stack:
        try:
            file = stack.enter_context(deb.open("rb"))
            _check_members(file)
            members = ArFile(fileobj=file).getmembers()
            member = next(it for it in members if it.name.startswith(part))
            reader = _READERS[member.name.removeprefix(part).lstrip(".")]
        except (ArError, OSError, ValueError, LookupError, StopIteration) as err:
            reason = getattr(err, "strerror", None) or "it is not a Debian package"
            raise UserError(f"{deb} cannot be read: {reason}.", remedy) from err
        try:
            stream = stack.enter_context(reader(member))
            yield stack.enter_context(tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member))
        except (*_DAMAGED, OSError) as err:
            if getattr(err, "errno", None):
                raise
            sentence = f"{deb} is cut short or damaged: it cannot be unpacked."
            raise UserError(sentence, remedy, str(err)) from err


@contextlib.contextmanager
def _rpm(package: Path, remedy: str) -> Iterator[Any]:
    import rpmfile

    try:
        with package.open("rb") as file, rpmfile.open(fileobj=file) as rpm:
            yield rpm
    except UserError:
        raise
    except OSError as err:
        raise UserError(f"{package} cannot be read: {err.strerror}.", remedy) from err
    except Exception as err:
        # rpmfile has no class of its own for a wrong number.
        sentence = f"{package} is not an RPM package, or damaged: it cannot be unpacked."
        raise UserError(sentence, remedy, str(err)) from err


def identify(package: Path, remedy: str) -> dict[str, str]:
    """Read a package's name, version and architecture, as it names that; UserError."""
    from debian.deb822 import Deb822

    if package.suffix == ".rpm":
        with _rpm(package, remedy) as rpm:
            names = ("name", "version", "release", "arch")
            name, version, release, arch = (rpm.headers[it].decode() for it in names)
        return {"package": name, "version": f"{version}-{release}", "arch": arch}
    with file_tree(package, remedy, "control.tar") as tar:
        for member in tar:
            if member.name.removeprefix("./") == "control" and (text := tar.extractfile(member)):
                _check_size(package, member.name, member.size, remedy, _MOST_TEXT)
                fields = Deb822(text)
                keys = {"package": "Package", "version": "Version", "arch": "Architecture"}
                return {key: fields.get(name, "") for key, name in keys.items()}
    raise UserError(f"{package} has no control file.", remedy)


def files_of(package: Path, paths: re.Pattern[str], remedy: str) -> Iterator[tuple[str, bytes]]:
    """Yield each regular file of a package whose path `paths` matches; UserError."""
    if package.suffix == ".rpm":
        with _rpm(package, remedy) as rpm:
            for name, size, stream in _cpio(_payload(rpm)):
                if paths.fullmatch(name):
                    _check_size(package, name, size, remedy)
                    yield name, _exactly(stream, size)
    else:
        with file_tree(package, remedy) as tar:
            for info in tar:
                content = tar.extractfile(info) if info.isreg() else None
                if content and paths.fullmatch(info.name):
                    _check_size(package, info.name, info.size, remedy)
                    yield info.name, content.read()


def _payload(rpm: Any) -> IO[bytes]:
    # Not rpmfile's own stream, which has all that zstd unpacks to in memory.
    rpm._fileobj.seek(rpm.data_offset)
    form = rpm.headers.get("archive_compression", b"gzip").decode()
    return cast(IO[bytes], _READERS[form](rpm._fileobj))


def _cpio(stream: IO[bytes]) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield each regular file's path and size, and the stream at its content; EOFError.

    The format is the one that the kernel's Documentation/driver-api/early-userspace/
    buffer-format.rst describes.
    """
    for number in itertools.count():
        head = _exactly(stream, 110)
        mode, size, length = (int(head[at : at + 8], 16) for at in (14, 54, 94))
        if head[:6] not in (b"070701", b"070702") or length > _MOST_TEXT:
            raise EOFError("a file's header is none")
        name = _exactly(stream, length)[:-1].decode()
        _exactly(stream, -stream.tell() % 4)
        if name == "TRAILER!!!":
            return
        end = stream.tell() + size
        _check_all(end, number)
        if stat.S_ISREG(mode):
            yield name, size, stream
        while left := end - stream.tell():
            _exactly(stream, min(left, _PIECE))
        _exactly(stream, -end % 4)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    if len(content := stream.read(size)) < size:
        raise EOFError("it is cut short")
    return content


def _check_size(package: Path, name: str, size: int, remedy: str, most: int = _MOST_FILE) -> None:
    if size > most:
        raise UserError(f"{package}: {name} has more than {most >> 20} MiB.", remedy)


def _is_below(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)


def extract(deb: Path, folder: Path, remedy: str) -> None:
    """Unpack a .deb's files, and links that stay in `folder`, as a system with a merged /usr."""
    root = Path(os.path.realpath(folder))
    with file_tree(deb, remedy) as tar:
        for member in tar:
            words = [word for word in member.name.split("/") if word not in ("", ".")]
            if words[:1] in (["bin"], ["sbin"], ["lib"], ["lib64"]):
                words.insert(0, "usr")
            path = root.joinpath(*words)
            if ".." in words or path == root or not _is_below(path.parent, root):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():
                path.unlink()
            if member.issym():
                target = path.parent / member.linkname
                if _is_below(target, root):
                    path.symlink_to(member.linkname)
            elif member.isreg() and (content := tar.extractfile(member)):
                with path.open("wb") as out:
                    shutil.copyfileobj(content, out)
                path.chmod(0o755 if member.mode & 0o100 else 0o644)
