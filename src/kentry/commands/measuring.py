# SPDX-License-Identifier: GPL-2.0-or-later
"""What the commands that boot kernels have in common: arguments, and SPEC|FILE -> Recording."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kentry.errors import RecordingError, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kentry.arch import Arch
    from kentry.kernels.config import Request
    from kentry.kernels.kernel import Kernel
    from kentry.model.recording import Recording
    from kentry.progress import Update
    from kentry.runners.exact import ExactOptions, Runner

SPEC_HELP = (
    "debian:6.12, source:6.12, tree:DIR[@REV], deb:FILE,"
    " image:FILE[,symbols=vmlinux][,config=FILE] or running"
)
MAX_WINDOWS = 1_000_000
# A matrix has many cases, and its counts no spread that more windows would tell of.
WINDOWS, MATRIX_WINDOWS = 1000, 200
PATHS, MATRIX_PATHS = 128, 32
MAX_SECONDS = 1e6


def add_case_argument(parser: argparse.ArgumentParser) -> None:
    """--case, which every command that looks at cases takes."""
    parser.add_argument(
        "--case",
        metavar="CASE,...",
        action="append",
        default=[],
        help="cases by name or pattern, such as getppid or '*@int80'; all by default",
    )


def add_vector_arguments(parser: argparse.ArgumentParser) -> None:
    """Vector states, beside those that --case spells out: 'getppid+vec=once'."""
    from kentry.measure.catalogue import PRESETS, VECTOR

    group = parser.add_argument_group("vector state")
    group.add_argument(
        "--matrix",
        metavar="UNIT",
        help=f"every state of a vector unit over every case it matters to: {VECTOR},"
        " or arm64's ssve or za",
    )
    group.add_argument(
        "--preset",
        choices=sorted(PRESETS),
        help="the cases of a benchmark; record prints them in its own form, too",
    )
    group.add_argument(
        "--vl",
        type=_lengths,
        default=(None,),
        metavar="BITS,...",
        help="vector lengths of the cpu model in bits; a boot for each",
    )


def add_arguments(parser: argparse.ArgumentParser, *, many_arches: bool = False) -> None:
    """How to measure."""
    group = parser.add_argument_group("measuring")
    several = "; several with commas" if many_arches else ""
    group.add_argument(
        "--arch", metavar="A", help=f"x86_64, arm64 or riscv64; this machine's own{several}"
    )
    add_case_argument(parser)
    add_vector_arguments(parser)
    add_build_arguments(parser)
    group.add_argument(
        "--windows",
        type=_windows,
        metavar="N",
        help=f"windows a case ({WINDOWS}, of a matrix {MATRIX_WINDOWS})",
    )
    group.add_argument(
        "--paths",
        type=_windows,
        metavar="N",
        help=f"windows recorded as paths ({PATHS}, of a matrix {MATRIX_PATHS})",
    )
    group.add_argument(
        "--randomise",
        action="store_true",
        help="leave KASLR and stack-offset randomisation on",
    )
    group.add_argument("--seed", type=seed, default=1, metavar="N", help="of the emulator (1)")
    group.add_argument(
        "--emulator",
        default="installed",
        metavar="QEMU",
        help="installed, backports, newest, or a path to a qemu-system program",
    )
    group.add_argument(
        "--timeout", type=float, default=120.0, metavar="S", help="seconds a boot may take (120)"
    )
    group.add_argument(
        "--memory", type=int, default=512, metavar="MIB", help="of the guest, in MiB (512)"
    )
    group.add_argument("--console", type=Path, metavar="FILE", help="keep the guest's console")
    group.add_argument(
        "--self-check",
        action="store_true",
        help="count every instruction a second way and compare (slow)",
    )
    group.add_argument("--fake", type=Path, metavar="DIR", help=argparse.SUPPRESS)


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    """How to build what is named by its source (source:, tree:)."""
    group = parser.add_argument_group("building (source: and tree:)")
    group.add_argument(
        "--config",
        default="tiny",
        metavar="tiny|userland|distro|FILE",
        help="the kernel's config: kentry's smallest, Debian's own trimmed, or a .config (tiny)",
    )
    group.add_argument(
        "--set",
        dest="sets",
        metavar="CONFIG_X=y",
        action="append",
        default=[],
        help="a config option on top of it: y, n, m or a value; may be given again",
    )
    group.add_argument(
        "--compiler", default="gcc", metavar="NAME", help="gcc, gcc-12, clang, clang-19 (gcc)"
    )


def request_of(args: argparse.Namespace) -> Request:
    """The building arguments as a Request; UserError where one is badly written."""
    from kentry.kernels.config import Request, parse_set

    for text in args.sets:
        parse_set(text)
    return Request(args.config, tuple(args.sets), args.compiler)


def _windows(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if not 1 <= value <= MAX_WINDOWS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {MAX_WINDOWS}")
    return value


def _lengths(text: str) -> tuple[int, ...]:
    if not all(word.isdecimal() for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text} is no list of vector lengths in bits")
    return tuple(dict.fromkeys(map(int, text.split(","))))


def seed(text: str) -> int:
    """--seed, as QEMU takes it."""
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to 2**64 - 1")
    return int(text)


def check_writable(file: Path) -> None:
    """Says now, not after the measurement, that a result could not be kept there."""
    if not os.path.isdir(file.parent):
        raise UserError(f"The folder of {file} does not exist.", f"Run: mkdir -p {file.parent}")
    if os.path.isdir(file):
        raise UserError(f"{file} is a folder.", "Name a file.")
    try:
        if os.path.exists(file) and not os.path.isfile(file):
            file.open("ab").close()
        else:
            tempfile.TemporaryFile(dir=file.resolve().parent).close()
    except OSError as err:
        raise UserError(f"{file} cannot be written: {err.strerror}.", "Name another file.") from err


def chosen_cases(args: argparse.Namespace) -> list[str]:
    """The words of every --case, split at commas; UserError where one has none."""
    words = [[word for word in group.split(",") if word] for group in args.case]
    if not all(words):
        raise UserError("--case names no case.", "Leave it out for all of them.")
    return [word for group in words for word in group]


def arch_of(args: argparse.Namespace) -> Arch:
    """--arch, or this machine's own."""
    from kentry.arch import find_arch, host_arch

    return find_arch(args.arch) if args.arch else host_arch()


def arches_of(args: argparse.Namespace) -> list[Arch]:
    """Every one of --arch A,B, once each, or this machine's own."""
    from kentry.arch import find_arch, host_arch

    if not args.arch:
        return [host_arch()]
    found = [find_arch(name) for name in args.arch.split(",")]
    return list({arch.name: arch for arch in found}.values())


def is_spec(text: str) -> bool:
    """Whether `text` names a kernel rather than a file."""
    from kentry.kernels.spec import KINDS

    kind = text.partition(":")[0].partition(",")[0]
    return kind in KINDS and not os.path.isfile(text)


def case_names(args: argparse.Namespace, arch: Arch) -> tuple[str, ...]:
    """The cases that --case, --matrix, --preset and --vl stand for; UserError."""
    from kentry.measure.catalogue import choose, matrix, preset

    words = chosen_cases(args)
    if args.matrix is not None:
        words += matrix(arch, args.matrix)
    if args.preset:
        words += preset(arch, args.preset)
    if args.vl != (None,) and not any("=" in word for word in words):
        raise UserError(
            "--vl is the vector length of cases with a vector state, and none is chosen.",
            "Add --matrix vector, or --case 'getppid+vec=once'.",
        )
    return tuple(dict.fromkeys(name for vl in args.vl for name in choose(arch, words, vl)))


def asked_for(
    texts: Sequence[str], recordings: Sequence[Recording], args: argparse.Namespace
) -> list[str] | None:
    """The cases asked for, of those in the recordings of `texts`; None where nothing was said.

    Where one was measured now, --vl and the like say what its cases are called.
    """
    from kentry.arch import find_arch

    if not (args.case or args.matrix is not None or args.preset):
        return None
    known = list(dict.fromkeys(case.name for one in recordings for case in one.cases))
    if not any(map(is_spec, texts)):
        return _matched(known, recordings[0], chosen_cases(args))
    names = case_names(args, find_arch(recordings[0].kernel["arch"]))
    return [name for name in known if name in names]


def as_in_file(recording: Recording, args: argparse.Namespace) -> None:
    """Makes the cases asked for those of a recording that is to be compared with a kernel."""
    wanted = chosen_cases(args)
    known = [case.name for case in recording.cases]
    if not wanted or args.matrix is not None or args.preset or args.vl != (None,):
        return
    args.case = _matched(known, recording, wanted)


def _matched(known: Sequence[str], recording: Recording, wanted: Sequence[str]) -> list[str]:
    """Those of `known` that `wanted` stands for; imported numbers may be of any architecture."""
    from kentry.arch import ARCHES
    from kentry.measure.catalogue import match

    name = recording.kernel["arch"]
    if name in ARCHES:
        return match(known, ARCHES[name], wanted)
    found = [one for one in known if any(fnmatch.fnmatchcase(one, word) for word in wanted)]
    if wanted and not found:
        raise UserError(f"Unknown case '{wanted[0]}' on {name}.", f"Cases: {', '.join(known)}.")
    return found or list(known)


def options_of(args: argparse.Namespace, arch: Arch) -> ExactOptions:
    """The measuring arguments as ExactOptions."""
    from kentry.runners.exact import ExactOptions

    if not 64 <= args.memory <= 65536:
        raise UserError(
            f"--memory {args.memory} is not between 64 and 65536 MiB.", "Try --memory 512."
        )
    if args.console:
        check_writable(args.console)
    if not 0 < args.timeout < MAX_SECONDS:
        raise UserError(
            f"--timeout {args.timeout:g} is not a time in seconds.", "Try --timeout 600."
        )
    return ExactOptions(
        cases=case_names(args, arch),
        windows=args.windows or (MATRIX_WINDOWS if args.matrix else WINDOWS),
        path_windows=args.paths or (MATRIX_PATHS if args.matrix else PATHS),
        randomise=args.randomise,
        seed=args.seed,
        timeout=args.timeout,
        memory=args.memory,
        emulator=args.emulator,
        check=args.self_check,
        console_file=args.console,
    )


def record(spec: str, args: argparse.Namespace) -> Recording:
    """Resolves, boots and measures `spec`."""
    return _record(spec, args, reuse=False)


def obtain(text: str, args: argparse.Namespace) -> Recording:
    """A recording: the file's, or of the spec, measured now or taken from the cache.

    The cache is keyed by content (image, config, probe, plugin, emulator, options), so
    a kept recording is what measuring again would give.
    """
    from kentry.model.recording import read_recording

    if not is_spec(text):
        if not os.path.exists(text) and (":" in text or not text):
            from kentry.kernels.spec import parse

            parse(text)
        return read_recording(Path(text))
    return _record(text, args, reuse=not args.fresh)


def _record(spec: str, args: argparse.Namespace, *, reuse: bool) -> Recording:
    from kentry.kernels.resolve import resolve
    from kentry.progress import progress

    arch = arch_of(args)
    options = options_of(args, arch)
    with progress(f"{spec} ({arch.name})") as update:
        kernel = resolve(spec, arch, update, request_of(args))
        return measured(kernel, arch, options, args, update, reuse=reuse)


def measured(
    kernel: Kernel,
    arch: Arch,
    options: ExactOptions,
    args: argparse.Namespace,
    update: Update,
    *,
    reuse: bool,
) -> Recording:
    """Measures a kernel, or takes from the cache what that gave before; a boot a vector length."""
    from kentry.measure.joining import joined
    from kentry.measure.vector_units import boots, check_options

    check_options(kernel, options.cases)
    return joined([_booted(kernel, arch, one, args, update, reuse=reuse) for one in boots(options)])


def _booted(
    kernel: Kernel,
    arch: Arch,
    options: ExactOptions,
    args: argparse.Namespace,
    update: Update,
    *,
    reuse: bool,
) -> Recording:
    from kentry.host.cache import cache_dir
    from kentry.measure.counting import measure
    from kentry.model.recording import read_recording, write_recording

    kept = cache_dir("recordings") / f"{_content_key(kernel, arch, options, args)}.json"
    if reuse and kept.exists():
        with contextlib.suppress(RecordingError):
            return read_recording(kept)
    recording = measure(kernel, _target(arch, args), options, update)
    write_recording(recording, kept)
    return recording


def _target(arch: Arch, args: argparse.Namespace) -> Runner:
    from kentry.runners.fake import FakeRunner
    from kentry.runners.qemu import QemuRunner

    return FakeRunner(args.fake) if args.fake else QemuRunner(arch)


def _content_key(
    kernel: Kernel, arch: Arch, options: ExactOptions, args: argparse.Namespace
) -> str:
    from kentry import __version__
    from kentry.host.cache import sha256_of
    from kentry.host.native import plugin_file, probe_file

    measured_with = asdict(options)
    del measured_with["console_file"], measured_with["timeout"]
    parts = {
        "kentry": [__version__, _analysis_digest()],
        "spec": kernel.spec,
        "image": kernel.image_sha256,
        "config": kernel.config_sha256,
        # The same image from elsewhere is another recording: it says where it is from.
        "origin": kernel.origin,
        "symbols": kernel.symbols_from,
        "probe": sha256_of(probe_file(arch)),
        "plugin": sha256_of(plugin_file()),
        "target": _target_identity(arch, options, args),
        "machine": [arch.machine, arch.cpu_with(), *arch.boot_words],
        "options": measured_with,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _analysis_digest() -> str:
    """Of what makes a recording out of a run: another kentry may find other events in it."""
    import kentry

    files = sorted(Path(kentry.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _target_identity(arch: Arch, options: ExactOptions, args: argparse.Namespace) -> list[str]:
    """What the numbers depend on: a saved run's files, or an emulator and its version."""
    from kentry.host.cache import sha256_of
    from kentry.runners.emulator import CHOICES, find_emulator

    if args.fake:
        return [sha256_of(args.fake / name) for name in ("console", "trace")]
    version = find_emulator(arch, options.emulator).version
    # A program named by its path may be anything that calls itself this version.
    own = [] if options.emulator in CHOICES else [sha256_of(Path(options.emulator).expanduser())]
    return [version, *own]
