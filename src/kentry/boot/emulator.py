# SPDX-License-Identifier: GPL-2.0-or-later
"""Which QEMU runs the guest, QEMU's command line, and the kernel's.

QEMU is the installed one, or a private copy that nobody installs: Debian's packages, fetched,
verified and unpacked below kentry's cache, with the libraries that they need.  It stays as it is
until it is deleted there: a count belongs to an emulator's version, so a copy that renewed itself
would change numbers by itself.

The guest is untrusted: no network device, QEMU's seccomp sandbox on, no default devices, its
memory and file size limited.
"""

import contextlib
import functools
import os
import re
import resource
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kentry.arch import ARCHES, Arch, host_arch
from kentry.arch.processors import Processor, machine_for, words_for
from kentry.boot.mitigations import mitigations
from kentry.errors import KentryError, MachineError, MissingToolError, UserError
from kentry.host.archive import RELEASES, Archive, Release
from kentry.host.cache import cache_dir, fresh_folder, held, read_manifest, write_manifest
from kentry.host.packages import remedy, system
from kentry.host.process import need, run
from kentry.host.unpack import extract
from kentry.kernels.kernel import Kernel
from kentry.progress import Update

INSTALLED = "installed"
BACKPORTS = "backports"
NEWEST = "newest"
CHOICES = (INSTALLED, BACKPORTS, NEWEST)

# The first whose plugin interface the plugin speaks; plugin/api.c has what came later.
_OLDEST = (7, 2)
# It takes a tenth of one.
_HELP_SECONDS = 60.0

_ANOTHER = "Choose another with --emulator: " + ", ".join(CHOICES) + " or a file."


@dataclass(frozen=True)
class Emulator:
    """A QEMU: its first words, its own sentence on its version, additions to our environment."""

    argv: tuple[str, ...]
    version: str
    numbers: tuple[int, ...]
    env: dict[str, str] = field(default_factory=dict)

    def stands_in(self, choice: str) -> bool:
        """Whether it is a private copy although the installed one was asked for."""
        # Only a private copy needs something in its environment.
        return choice == INSTALLED and bool(self.env)


def find_emulator(
    arch: Arch, choice: str = INSTALLED, update: Update = lambda fraction, now: None
) -> Emulator:
    """The QEMU for `arch` that `choice` names: "installed", "backports", "newest" or a file.

    "backports" is that of this machine's release, "newest" that of the newest release kentry knows,
    both with libraries of their own.  They are fetched on first use.
    MissingToolError when it is not there, too old, or cannot load plugins; UserError when
    `choice` is none of the four.
    """
    if choice == INSTALLED:
        return _asked((need(arch.qemu),), {}, arch)
    if choice == NEWEST:
        return _private(_copy(RELEASES[-1], update), arch)
    if choice == BACKPORTS:
        name = system().get("VERSION_CODENAME", "")
        release = next((release for release in RELEASES if release.name == name), None)
        if not release:
            raise UserError(
                f"kentry knows no backports for this machine's system ({name or 'no code name'}).",
                f"Choose --emulator {NEWEST}, {INSTALLED} or a file.",
            )
        return _private(_copy(release, update), arch)
    if os.sep not in choice:
        raise UserError(f"Unknown emulator '{choice}'.", _ANOTHER)
    path = Path(os.path.expanduser(choice))
    if not path.is_file() or not os.access(path, os.X_OK):
        raise MissingToolError(f"{path} is not a program.", _ANOTHER)
    return _asked((str(path.absolute()),), {}, arch)


def emulator_since(
    arch: Arch,
    choice: str,
    oldest: tuple[int, ...],
    why: str,
    update: Update = lambda fraction, now: None,
) -> Emulator:
    """As find_emulator(), but from the version `oldest` on, of which `why` says what it is for.

    For an installed one that is older, or that is not there, a private copy stands in.
    """
    newer = CHOICES[CHOICES.index(choice) + 1 :] if choice in CHOICES else CHOICES[1:]
    try:
        emulator = find_emulator(arch, choice, update)
        if emulator.numbers >= oldest:
            return emulator
        raise MissingToolError(
            f"QEMU {emulator.version} {why}: QEMU {'.'.join(map(str, oldest))} is the first that"
            " can.",
            f"Choose --emulator {' or '.join([*newer, 'FILE'])}.",
        )
    except MissingToolError:
        if choice != INSTALLED:
            raise
    with contextlib.suppress(KentryError):
        return emulator_since(arch, BACKPORTS, oldest, why, update)
    return emulator_since(arch, NEWEST, oldest, why, update)


def emulator_with(arch: Arch, choice: str, processor: Processor) -> Emulator:
    """As find_emulator(), but one that has the processor."""
    return emulator_since(arch, choice, processor.since, f"has no {processor.name}")


def _asked(argv: tuple[str, ...], env: dict[str, str], arch: Arch) -> Emulator:
    """The emulator behind `argv`; MissingToolError where its -help says it will not do."""
    try:
        help_text = run([*argv, "-help"], env=env, check=False, seconds=_HELP_SECONDS)
    except subprocess.TimeoutExpired as err:
        what = f"{argv[0]} does not say in {_HELP_SECONDS:g} s what it is."
        raise MissingToolError(what, "Try again, or choose another with --emulator.") from err
    if help_text.returncode:
        raise MissingToolError(f"{argv[0]} does not run.", _ANOTHER, help_text.stderr.strip())
    version = re.match(r"QEMU emulator version (((?:\d+\.)+\d+).*)", help_text.stdout)
    if not version:
        raise MissingToolError(f"{argv[0]} is not a QEMU.", _ANOTHER)
    numbers = tuple(int(number) for number in version[2].split("."))
    another = remedy(arch.qemu, otherwise=f", or choose --emulator {BACKPORTS}")
    if numbers < _OLDEST:
        raise MissingToolError(
            f"QEMU {version[2]} is too old: {_OLDEST[0]}.{_OLDEST[1]} is the first that will do.",
            another,
        )
    for start, why in arch.failing_emulators.items():
        if numbers[: len(start)] == start:
            raise MissingToolError(f"QEMU {version[2]} will not do: it {why}.", _ANOTHER)
    if not re.search(r"^-plugin ", help_text.stdout, re.MULTILINE):
        what = f"{argv[0]} (QEMU {version[2]}) was built without plugins."
        raise MissingToolError(what, another)
    return Emulator(argv, version[1], numbers, env)


def _private(root: Path, arch: Arch) -> Emulator:
    program = root / "usr/bin" / arch.qemu
    if not program.is_file():
        raise MissingToolError(f"The private QEMU copy in {root} has no {arch.qemu}.", _ANOTHER)
    # Names the firmware's folders: without them QEMU looks beside what runs it, the loader.
    folders = ("usr/share/qemu", "usr/share/seabios")
    argv = [str(program), *(word for folder in folders for word in ("-L", str(root / folder)))]
    modules = _only(root, "usr/lib/*/qemu")
    loader = _only(root, "usr/lib/*/ld-linux*.so.*")
    libraries = ("--library-path", str(modules.parent))
    return _asked((str(loader), *libraries, *argv), {"QEMU_MODULE_DIR": str(modules)}, arch)


def _only(root: Path, pattern: str) -> Path:
    paths = sorted(root.glob(pattern))
    if not paths:
        raise MissingToolError(
            f"The private QEMU copy in {root} is damaged: it has no {pattern}.",
            "Delete that folder and try again.",
        )
    return paths[0]


def _copy(release: Release, update: Update) -> Path:
    """The folder with the backports QEMU of a release, unpacked on first use."""
    archive = Archive(host_arch().debian, release)
    folder = cache_dir("emulators") / f"{release.name}-whole-{archive.arch}"
    with held(folder.with_name(f"{folder.name}.lock"), update, "another kentry that fetches QEMU"):
        if _is_whole(folder):
            return folder
        if folder.is_dir():
            update(None, f"fetching QEMU again: {folder} is damaged, or an older kentry's")
        suite = next(suite for suite in release.suites if suite.endswith("-backports"))
        packages = sorted({arch.qemu_split_package for arch in ARCHES.values()})
        with fresh_folder(folder) as work, archive.locked(update):
            debs = archive.download_closure(packages, update, suite)
            for number, (deb, package) in enumerate(debs.items()):
                update(number / len(debs), f"unpacking {package.package}")
                extract(deb, work, "Try again.")
                deb.unlink()
            # usr/bin has 160 MB of programs for other architectures.
            names = {arch.qemu for arch in ARCHES.values()}
            files = (file for file in work.rglob("*") if file.is_file() and not file.is_symlink())
            read = [file for file in files if file.parent.name != "bin" or file.name in names]
            write_manifest(work, [str(file.relative_to(work)) for file in read])
        _is_whole.cache_clear()
    return folder


@functools.cache
def _is_whole(folder: Path) -> bool:
    """Whether a copy's files are those that were unpacked: each process looks at them once."""
    return bool(read_manifest(folder))


KVM, TCG, ICOUNT = "kvm", "tcg", "icount"

# As a recording's "target" names them.
ACCELERATORS = {
    KVM: "kvm",
    TCG: "tcg, one thread",
    ICOUNT: "tcg, one thread, -icount shift=0,sleep=off",
}

# With these every boot of a kernel runs the same instructions; the other lets its stacks vary.
STEADY = ("nokaslr", "randomize_kstack_offset=off")
RANDOM = ("randomize_kstack_offset=on",)

# Address space QEMU may take beyond the guest's memory: its code, 1 GiB of translated
# code at most, and thread stacks.
_QEMU_OVERHEAD_MIB = 4096
# No file QEMU writes (the trace) may grow beyond this.
_FILE_LIMIT_MIB = 1024

# The guest has a serial port and nothing else, and QEMU may do little.
_ALONE = (
    *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
    *("-nic", "none", "-monitor", "none", "-serial", "stdio"),
    *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
)


@dataclass(frozen=True)
class Guest:
    """A machine of QEMU's; `memory` is in MiB, `length` that of the processor's vectors in bits.

    Without a length it has the processor's own; some `cases` need another machine than it does.
    Under ICOUNT the guest's time counts instructions (one a nanosecond) from a fixed date, so
    every run with the same `seed` is alike.
    """

    emulator: Emulator
    arch: Arch
    processor: Processor
    memory: int
    seed: int = 1
    accelerator: str = ICOUNT
    length: int | None = None
    cases: Collection[str] = ()

    def argv(self, file_limit: int = _FILE_LIMIT_MIB) -> list[str]:
        """The command line but for what is booted; no file grows beyond `file_limit` MiB.

        MachineError where this process may not take so much memory.
        """
        mib = 1 << 20
        needed = self.memory + _QEMU_OVERHEAD_MIB
        allowed = resource.getrlimit(resource.RLIMIT_AS)[1] // mib
        if 0 <= allowed < needed and os.geteuid():
            raise MachineError(
                f"QEMU needs {needed} MiB of memory (address space), and the limit here is"
                f" {allowed} MiB.",
                "Raise the limit (ulimit -v unlimited), or give a program's guest less: --memory.",
            )
        machine = machine_for(self.arch, self.processor, self.cases)
        argv = [
            *(need("prlimit"), f"--as={needed * mib}", f"--fsize={file_limit * mib}"),
            *("--core=0", "--", *self.emulator.argv),
            *("-machine", machine, "-cpu", self.processor.qemu(self.length)),
            *("-accel", "kvm" if self.accelerator == KVM else "tcg,thread=single"),
            *("-smp", "2" if words_for(self.cases) else "1", "-m", f"{self.memory}M", *_ALONE),
        ]
        if self.accelerator == ICOUNT:
            argv += ["-icount", "shift=0,sleep=off", "-seed", str(self.seed)]
            argv += ["-rtc", "base=2020-01-01T00:00:00,clock=vm"]
        return argv

    def target(
        self, words: Sequence[str], files: Mapping[str, str], **features: str
    ) -> dict[str, Any]:
        """What a recording says of it; `words` are the kernel's, `files` for mitigations()."""
        processor = self.processor
        # The processor is free of what its own words switch off; the kernel takes it for affected.
        unaffected = [flaw for flaw, word in self.arch.switches.items() if word in processor.words]
        return {
            "kind": "qemu",
            "emulator": f"QEMU {self.emulator.version}",
            "machine": machine_for(self.arch, processor, self.cases),
            "processor": processor.name,
            "cpu": processor.qemu(self.length),
            "mitigations": mitigations(files, unaffected),
            **features,
            "accelerator": ACCELERATORS[self.accelerator],
            "memory_mib": self.memory,
            "seed": self.seed,
            "cmdline": " ".join(words),
        }


def boot_argv(kernel: Kernel, initramfs: Path, parameters: Sequence[str]) -> list[str]:
    """What is booted; `parameters` are the kernel's command line, and init's after "--"."""
    return [
        *("-kernel", str(kernel.image), "-initrd", str(initramfs)),
        *("-append", " ".join(parameters)),
    ]


def kernel_words(
    arch: Arch,
    processor: Processor,
    steadiness: Sequence[str] = STEADY,
    more: Sequence[str] = (),
) -> list[str]:
    """The kernel's own words; `steadiness` is STEADY, RANDOM or nothing, `more` come last."""
    # panic=-1: reboot at once, which -no-reboot turns into QEMU's end.
    own = ["panic=-1", "quiet", f"console={arch.console}"]
    # Of two words for the same thing the kernel takes the last, the user's.
    return [*own, *steadiness, *processor.words, *more]


# What a user's word of the kernel's command line must not set: kentry does, or counts on it.
_OURS = {
    *("panic", "quiet", "debug", "loglevel", "ignore_loglevel", "console", "earlycon"),
    *("nokaslr", "kaslr", "randomize_kstack_offset", "dhash_entries", "mem", "memmap"),
    *("init", "rdinit", "initrd", "noinitrd", "root", "maxcpus", "nr_cpus", "nosmp", "--"),
}


def check_append(append: str) -> None:
    """Raises UserError for a word of the kernel's command line that would break the measurement."""
    for word in append.split():
        if (name := word.partition("=")[0].replace("-", "_") if word != "--" else word) in _OURS:
            raise UserError(
                f"'{word}' cannot be on the kernel's command line: what kentry measures depends on"
                f" its own {name}.",
                "Leave it out; kentry record has --memory and --randomise.",
            )
    if any(not char.isprintable() or char == '"' for char in append):
        raise UserError(
            "The kernel's command line takes printable words without quotes.", "Leave them out."
        )


def plugin_argv(plugin: Path, arch: Arch, arguments: Sequence[str]) -> list[str]:
    """Loads a plugin: its file, `arguments`, and which addresses are firmware."""
    firmware = ["firmware={:x}-{:x}".format(*arch.firmware)] if arch.firmware else []
    # QEMU splits options at commas; a doubled one stands for itself.
    argument = ",".join(word.replace(",", ",,") for word in [str(plugin), *arguments, *firmware])
    return ["-plugin", argument]
