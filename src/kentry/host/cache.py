# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache folder, folders for one run, and files that are written whole or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from kentry.errors import UserError
from kentry.progress import Update

_FEW_FILES = 64


def cache_dir(*parts: str) -> Path:
    """Make a folder, if need be, in $KENTRY_CACHE, $XDG_CACHE_HOME/kentry or ~/.cache/kentry."""
    folder = _place(*parts)
    with no_space_is_an_error(folder):
        if parts and folder.is_file():
            folder.unlink()
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _place(*parts: str) -> Path:
    if not (base := os.environ.get("KENTRY_CACHE")):
        xdg = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        base = os.path.join(xdg, "kentry")
    # Without symbolic links, because a build's sandbox has the folder under this name.
    return Path(os.path.realpath(Path(base, *parts)))


@contextlib.contextmanager
def no_space_is_an_error(path: Path) -> Iterator[None]:
    """Turns an OSError of the block, such as a full disk, into a UserError that names `path`."""
    try:
        yield
    except OSError as err:
        is_own = Path(os.path.realpath(path)).is_relative_to(_place())
        other = "name another folder in KENTRY_CACHE" if is_own else "choose another place"
        if err.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"No space is left for {path}.", f"Free some, or {other}.") from err
        denied = err.errno in (errno.EACCES, errno.EROFS, errno.EPERM)
        raise UserError(
            f"{path} cannot be {'written' if denied else 'used'}: {err.strerror}.",
            f"{other[0].upper()}{other[1:]}.",
        ) from err


def check_room(folder: Path, size: int) -> None:
    """Raise UserError unless `folder` has room for `size` bytes and a few new files."""
    # For steps that end late or badly on a full disk.
    stat = os.statvfs(folder)
    # Some file systems have no fixed number of files and say 0.
    no_files = stat.f_files > 0 and stat.f_favail < _FEW_FILES
    if no_files or stat.f_bavail * stat.f_frsize < size:
        what = "inodes" if no_files else f"MiB: {-(-size >> 20)} are needed"
        free = stat.f_favail if no_files else stat.f_bavail * stat.f_frsize >> 20
        raise UserError(
            f"The disk of {folder} is full, with {free} free {what}.",
            "Free some, or name another folder in KENTRY_CACHE.",
        )


def read_bytes(path: Path, remedy: str = "Name a file that can be read.", most: int = -1) -> bytes:
    """Return the first `most` bytes of a file that the user named; UserError if unreadable."""
    try:
        with path.open("rb") as stream:
            # Python makes room for all that it is asked for.  Files of /proc have no size.
            size = os.fstat(stream.fileno()).st_size
            return stream.read(min(most, size + 1) if most > 0 and size else most)
    except OSError as err:
        raise UserError(f"{path} cannot be read: {err.strerror}.", remedy) from err


def read_at_most(path: Path, most: int, remedy: str) -> bytes:
    """Return what is in a file that the user named; UserError if unreadable or above `most`."""
    content = read_bytes(path, remedy, most + 1)
    if len(content) > most:
        raise UserError(f"{path} is larger than {most >> 20} MiB.", remedy)
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read what write_json() wrote there; empty where it is not there, damaged or another's."""
    try:
        content = dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}
    checksum = content.pop("checksum", None)
    whole = checksum == digest_of(content) and content.pop("path", None) == _own_path(path)
    return content if whole else {}


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object with its path and a checksum of both."""
    own = {**content, "path": _own_path(path)}
    write_atomically(path, json.dumps({**own, "checksum": digest_of(own)}, indent=1) + "\n")


def _own_path(path: Path) -> str:
    # In the cache it is what the content was made for.  Above are folders that a user may rename,
    # and fresh_folder() writes into .NAME.xxxxxxxx.
    folder = re.sub(r"^\.(.+)\.[^.]+$", r"\1", path.parent.name)
    return f"{folder}/{path.name}"


def digest_of(content: dict[str, Any]) -> str:
    """Return a name in the cache for what was made for these."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest.json of a folder of the cache; empty if it or a file is not whole."""
    manifest = read_json(folder / "manifest.json")
    return manifest if has_files(folder, manifest.get("sha256")) else {}


def write_manifest(
    folder: Path, names: Iterable[str], facts: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Write and return what read_manifest() reads: `facts`, and the hashes of the named files."""
    manifest = {**facts, "sha256": {name: sha256_of(folder / name) for name in names}}
    write_json(folder / "manifest.json", manifest)
    return manifest


def has_files(folder: Path, hashes: Any) -> bool:
    """Whether files with these SHA-256 are in the folder, by name; no if `hashes` is no dict."""
    try:
        return all(sha256_of(folder / name) == sha for name, sha in hashes.items())
    except (OSError, AttributeError):
        return False


def sha256_of(path: Path) -> str:
    """Return the file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write the whole file or none of it, as whole_file()."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that appears as `path` when the block ends well; a device or pipe is written to."""
    with no_space_is_an_error(path):
        # Path.resolve() raises on a loop of links, and a pipe has no path behind its link.
        named, path = path, Path(os.path.realpath(path))
        if path.is_dir() and cache_dir() in path.parents:
            shutil.rmtree(path)
        if named.exists() and not named.is_file():
            with named.open("wb") as device:
                yield device
            return
        # A file without a name leaves none behind when kentry is killed.
        try:
            handle = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, 0o644)
            name = ""
        except OSError:
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)
                if not name:
                    # Only with a folder's descriptor Python has the link of /proc followed.
                    link = partial(os.link, f"/proc/self/fd/{file.fileno()}", src_dir_fd=handle)
                    with contextlib.suppress(FileExistsError):
                        link(path)
                        return
                    name = f"{path.parent}/.{path.name[:100]}.{secrets.token_hex(8)}"
                    link(name)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def kept_file(name: str, content: str | bytes) -> Path:
    """Return a file for QEMU that stays in the cache, so that a command line can be repeated."""
    data = content.encode() if isinstance(content, str) else content
    file = cache_dir("boot", hashlib.sha256(data).hexdigest()) / name
    if not file.is_file() or file.read_bytes() != data:
        write_atomically(file, data)
    return file


@contextlib.contextmanager
def fresh_folder(final: Path) -> Iterator[Path]:
    """Yield a new empty folder beside `final` that becomes `final` when the block ends well."""
    with no_space_is_an_error(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        for left in final.parent.glob(f".{final.name}.*"):
            _remove_if_dead(left)
        work = Path(tempfile.mkdtemp(dir=final.parent, prefix=f".{final.name}."))
        # What is killed lets go of it; the next one that makes this folder takes it away.
        owner = os.open(work, os.O_RDONLY)
        try:
            fcntl.flock(owner, fcntl.LOCK_EX)
            yield work
            if final.is_dir():
                shutil.rmtree(final)
            final.unlink(missing_ok=True)
            os.chmod(work, 0o755)
            os.replace(work, final)
        finally:
            os.close(owner)
            shutil.rmtree(work, ignore_errors=True)


def _remove_if_dead(folder: Path) -> None:
    with contextlib.suppress(OSError):
        owner = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        finally:
            os.close(owner)


@contextlib.contextmanager
def held(file: Path, update: Update, other: str) -> Iterator[None]:
    """Hold the lock, also nested; the progress says that it waits for `other`."""
    # A cache that may not be written is read without the lock.
    from filelock import FileLock, Timeout

    lock = FileLock(file, is_singleton=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        update(None, f"waiting for {other}")
        lock.acquire()
    except OSError as err:
        if err.errno not in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield an empty folder in the cache, removed when the block ends or by the next call."""
    base = cache_dir("scratch")
    # Its owner holds a lock on each folder; the kernel releases the lock of a dead one.
    with no_space_is_an_error(base), (base / "lock").open("w") as all_folders:
        fcntl.flock(all_folders, fcntl.LOCK_EX)
        for folder in filter(Path.is_dir, base.iterdir()):
            _remove_if_dead(folder)
        folder = Path(tempfile.mkdtemp(dir=base))
        owner = os.open(folder, os.O_RDONLY)
        fcntl.flock(owner, fcntl.LOCK_EX)
    try:
        (folder / "files").mkdir()
        yield folder / "files"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(owner)
