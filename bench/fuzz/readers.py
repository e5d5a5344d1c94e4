# SPDX-License-Identifier: GPL-2.0-or-later
"""What reads what others wrote, each as a function of bytes that ends or raises KentryError.

Run as a program, it is the fuzzer of one of them: atheris drives it with libFuzzer's options.
Usage: python -m bench.fuzz.readers NAME [LIBFUZZER'S OPTION...] [CORPUS...]
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from unittest import mock

from tests import ROOT

from kentry.errors import KentryError

GOLDEN = ROOT / "tests" / "golden"
# A reader of a file reads one that is written anew for each input.
FILE = Path(os.environ.get("KENTRY_FUZZ_FOLDER", gettempdir())) / f"kentry-fuzz-{os.getpid()}"


def read_in_full(rows: Iterable[Any]) -> None:
    for _ in rows:
        pass


def with_checksum(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the checksum of what it says."""
    from kentry.results.document import checksum_of

    own = {key: value for key, value in document.items() if key != "checksum"}
    return {"checksum": checksum_of(own), **own}


def of_file(read: Callable[[Path], Any]) -> Callable[[bytes], None]:
    """A reader of bytes that are first written to a file."""

    def target(data: bytes) -> None:
        FILE.write_bytes(data)
        read(FILE)

    return target


def recording(data: bytes) -> None:
    """A recording whose checksum is right: what is wrong with it is not that it was damaged."""
    import msgspec

    from kentry.results.recording import read_recording

    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        document = msgspec.json.decode(data)
        if isinstance(document, dict):
            data = msgspec.json.encode(with_checksum(document))
    read_recording(Path("recording.json"), data)


def trace(data: bytes) -> None:
    """What the windows' plugin wrote."""
    from kentry.boot.plugin_trace import parse_trace

    of_file(parse_trace)(data)


def counts(data: bytes) -> None:
    """What the tasks' plugin summed up."""
    from kentry.count.workload import read_counts

    of_file(read_counts)(data)


def task_table(data: bytes) -> None:
    """What the tasks' plugin says of tasks, and its records."""
    from kentry.vector.tracing import read_records, read_task_table

    of_file(lambda file: read_in_full(read_records(file)))(data)
    read_task_table(FILE)


def events(data: bytes) -> None:
    """A trace of vector events: Parquet, which Arrow reads."""
    from kentry.vector.trace import read_trace

    of_file(read_trace)(data)


def stored(data: bytes) -> None:
    """An object of a store, with the name that it would have to have."""
    from hashlib import sha256

    from kentry.store.store import Store

    place = FILE.with_suffix(".store")
    store = Store(str(place), create=not place.exists())
    packed = gzip.compress(data, 1) if data[:1] == b"{" else data
    with contextlib.suppress(OSError, EOFError, zlib.error):
        key = sha256(gzip.decompress(packed)).hexdigest()
        store._files.pipe_file(store._path(key), packed, mkdirs=True)
        store._index(store._path(key))
        store.gc()


def settings(data: bytes) -> None:
    """A user's settings."""
    from kentry.commands.settings import settings as read_settings

    with mock.patch.dict(os.environ, XDG_CONFIG_HOME=str(FILE.parent)):
        FILE.with_name("kentry.toml").write_bytes(data)
        read_settings()


def series(data: bytes) -> None:
    """A quilt series, which names one patch as the fuzzer likes."""
    from kentry.kernels.patches import read_patches

    patch = b"--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-a\n+b\n"
    FILE.with_name("a.patch").write_bytes(patch)
    file = FILE.with_name("series")
    file.write_bytes(data)
    read_patches([file])


def console(data: bytes) -> None:
    """What a guest's console says."""
    from kentry.boot.guest_tasks import read_ending
    from kentry.boot.probe_protocol import read_files, read_report

    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    read_ending(text)
    read_report(lines)
    read_files(lines)


def image(data: bytes) -> None:
    """A kernel's image, in the forms that boot loaders take."""
    from kentry.kernels import payload

    payload.unpack(data, "image")


def symbols(data: bytes) -> None:
    """The table of symbols in a kernel."""
    from kentry.kernels import kallsyms

    # All places of a table of a million names take two seconds under atheris.
    fewer = mock.patch.object(kallsyms, "_MOST_NAMES", 1 << 10)
    with fewer, contextlib.suppress(ValueError):
        read_in_full(kallsyms.read(data))


def vmlinux(data: bytes) -> None:
    """A kernel as the linker leaves it."""
    from tests.unit.kernels import fakes

    from kentry.arch import ARCHES
    from kentry.kernels import symtab

    of_file(symtab.debug_info_of)(data)
    symtab.of_vmlinux(FILE, ARCHES["arm64"], fakes.BANNER, None)


def package(data: bytes) -> None:
    """A package of Debian's or of another distribution's."""
    import re

    from kentry.host import unpack

    of_file(lambda file: unpack.identify(file, ""))(data)
    read_in_full(unpack.files_of(FILE, re.compile("(?s).*"), ""))


def mail(data: bytes) -> None:
    """A series of patches, as mails."""
    from kentry.kernels.patches import read_patches

    of_file(lambda file: read_patches([file]))(data)


def config(data: bytes) -> None:
    """A kernel's configuration."""
    from kentry.kernels import config as kernel_config

    kernel_config.read(data.decode("utf-8", "replace"))


def budgets(data: bytes) -> None:
    """A file of budgets."""
    from kentry.study.budgets import read_budgets

    of_file(read_budgets)(data)


def costs(data: bytes) -> None:
    """A table of costs."""
    from kentry.models.costs import load_costs

    of_file(lambda file: load_costs(file))(data)


def published(data: bytes) -> None:
    """Another tool's output."""
    from kentry.importing.import_file import import_text

    import_text(data.decode("utf-8", "replace"), "numbers.txt")


def machine(data: bytes) -> None:
    """What a machine's files say of it."""
    from kentry.time.preflight import choose_cpu, parse_lines

    facts = parse_lines(data.decode("utf-8", "replace").split("\n"))
    if facts.online:
        choose_cpu(facts)


def words(data: bytes) -> None:
    """Operands and values of options, a line each; an argument has no byte of zero."""
    from kentry.arch import ARCHES
    from kentry.arch.processors import find_processor
    from kentry.boot.userland.workloads import parse_copy
    from kentry.kernels import config as kernel_config
    from kentry.kernels import spec
    from kentry.results.case_name import parse_size
    from kentry.vector.policies import parse_policy

    readers: tuple[Callable[[str], Any], ...] = (
        spec.parse,
        parse_copy,
        parse_policy,
        kernel_config.parse_options,
        parse_size,
        lambda text: find_processor(ARCHES["arm64"], text),
    )
    for text in data.decode("utf-8", "replace").replace("\0", "").split("\n")[:16]:
        for read in readers:
            # Of an OSError, such as a name's that is too long, the command line makes a sentence.
            with contextlib.suppress(KentryError, OSError):
                read(text)


# Of each reader: inputs that it reads to the end, which the fuzzer changes.
def _recordings() -> Iterator[bytes]:
    import msgspec
    from tests.builders import recording as built

    from kentry.results.recording import to_file

    yield msgspec.json.encode(to_file(built({"getppid": [("el0_svc", 3), ("do_el0_svc", 4)]})))
    yield (GOLDEN / "floor-arm64.json").read_bytes()


def _images() -> Iterator[bytes]:
    from tests.unit.kernels import fakes

    yield from (fakes.image(), gzip.compress(fakes.image()), lzma.compress(fakes.image()))


def _symbols() -> Iterator[bytes]:
    from tests.unit.kernels import fakes, test_kallsyms

    for release in ((4, 19), (6, 1), (6, 12)):
        yield test_kallsyms.image(fakes.kallsyms(fakes.BASE, release), "{}.{}".format(*release))


def _vmlinux() -> Iterator[bytes]:
    from tests.unit.kernels import fakes

    yield fakes.vmlinux()


def _packages() -> Iterator[bytes]:
    from tests.unit.kernels import fakes

    small = {"./boot/config-1": b"CONFIG_A=y\n", "./boot/vmlinuz-1": b"MZ" + bytes(62)}
    for form in ("gz", "xz", "zst"):
        yield fakes.deb(FILE, small, form=form).read_bytes()
    for form in ("gzip", "zstd"):
        yield fakes.rpm(FILE, small, form).read_bytes()


def _traces() -> Iterator[bytes]:
    from tests.unit.boot.test_plugin_trace import WHOLE

    yield WHOLE.encode()


def _counts() -> Iterator[bytes]:
    from tests.unit.count.test_workload import COUNTS

    yield COUNTS.encode()


def _task_table() -> Iterator[bytes]:
    from tests.unit.vector.test_tracing import RECORDS, TASKS

    yield TASKS.encode()
    yield RECORDS


def _events() -> Iterator[bytes]:
    from tests.unit.vector.traces import random_rows, save, trace_of

    save(FILE, trace_of(random_rows(50)))
    yield FILE.read_bytes()


def _published() -> Iterator[bytes]:
    from tests.unit.importing import samples

    yield from (text.encode() for text in vars(samples).values() if isinstance(text, str))


def _files(*patterns: str) -> Callable[[], Iterator[bytes]]:
    return lambda: (file.read_bytes() for pattern in patterns for file in ROOT.glob(pattern))


def _text(text: str) -> Callable[[], Iterator[bytes]]:
    return lambda: iter((text.encode(),))


MACHINE = """\
kentry-probe file /sys/devices/system/cpu/online
kentry-probe > 0-3
kentry-probe file /proc/interrupts
kentry-probe >            CPU0       CPU1
kentry-probe >   0:         40          0   IO-APIC   2-edge      timer
kentry-probe nofile /sys/devices/system/cpu/isolated 2
"""
WORDS = "debian:6.12\nimage:a,symbols=b\ntree:a@b\nkeep+10ms\nA=y,B=n\n64K\nmax,sve=off"
READERS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "recording": (recording, _recordings),
    "trace": (trace, _traces),
    "counts": (counts, _counts),
    "task-table": (task_table, _task_table),
    "events": (events, _events),
    "stored": (stored, _recordings),
    "settings": (settings, _text('arch = "arm64"\ncpu = "max"\ncolor = "never"\n')),
    "series": (series, _text("# of Debian\na.patch -p1 # the first\n\na.patch\n")),
    "console": (console, _files("tests/consoles/*.log")),
    "image": (image, _images),
    "symbols": (symbols, _symbols),
    "vmlinux": (vmlinux, _vmlinux),
    "package": (package, _packages),
    "mail": (mail, _files("examples/*/*.patch")),
    "config": (config, _files("src/kentry/kernels/configs/*")),
    "budgets": (budgets, _files("tests/golden/*.toml")),
    "costs": (costs, _files("src/kentry/models/costs/*.toml")),
    "published": (published, _published),
    "machine": (machine, _text(MACHINE)),
    "words": (words, _text(WORDS)),
}


def main() -> None:
    """Fuzzes one reader until libFuzzer has had enough; a finding ends it with 77."""
    import atheris

    name, *options = sys.argv[1:]
    read, seeds = READERS[name]
    with atheris.instrument_imports(include=["kentry"], enable_loader_override=False):
        # A reader imports what it needs when it is called first.
        for seed in seeds():
            with contextlib.suppress(KentryError):
                read(seed)

    def target(data: bytes) -> None:
        with contextlib.suppress(KentryError):
            read(data)

    atheris.Setup([sys.argv[0], *options], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
