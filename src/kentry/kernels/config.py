# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel configs: what is asked for, what Kconfig made of it, and the options of ablate."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kentry.arch import Arch
from kentry.errors import BuildError, UserError
from kentry.host.cache import read_at_most

TINY, USERLAND, DISTRO = "tiny", "userland", "distro"

_FOLDER = Path(__file__).parent / "configs"
_OPTION = re.compile(r"CONFIG_\w+", re.ASCII)
_VALUE = re.compile(r'[ynm]|-?\d+|0x[0-9a-fA-F]+|"[^"\\\n]*"|[\w./+-]+')
_OFF = re.compile(r"# (CONFIG_\w+) is not set")
_NAMED = 5

# Of a .config or a list of options: a distribution's has 0.3 MB.
MOST_BYTES = 16 << 20
_WRITTEN = "Write it like: CONFIG_AUDIT with CONFIG_NET."

# Families of boards (ARCH_SUNXI), half of an arm64 kernel, and options that Kconfig sets itself.
_SOC = re.compile(r"CONFIG_(ARCH|SOC)_\w+")

# Before 5.12 there is no choice of a version.
_DEBUG_INFO = re.compile("CONFIG_DEBUG_INFO(_DWARF.*)?")

# What Kconfig writes by itself: facts about the compiler, not choices.
_FACTS = re.compile(r"CONFIG_(CC|GCC|LD|AS|CLANG|RUSTC|PAHOLE|BINDGEN|HAVE|TOOLS|ARCH)_")


@dataclass(frozen=True)
class Request:
    """How to build a kernel: config (a name or a file), OPTION=VALUE on top of it, compiler."""

    config: str = TINY
    sets: tuple[str, ...] = ()
    compiler: str = "gcc"

    def chosen(self, options: Mapping[str, str]) -> Request:
        """Return the request with what a spec's own options say instead."""
        config = options.get("config", self.config)
        return replace(self, config=config, compiler=options.get("compiler", self.compiler))


@dataclass(frozen=True)
class Config:
    """Options to begin with, by full name; off is "n".

    What a `whole` .config does not name is Kconfig's default, otherwise off (allnoconfig).  Of
    `strict` each must come out as asked for where the tree knows it, of `named` even where not.
    `file` is the one of the source that has them: another commit may have others there.
    """

    options: Mapping[str, str]
    whole: bool
    strict: frozenset[str] = field(default=frozenset())
    named: frozenset[str] = field(default=frozenset())
    file: str = ""

    @property
    def btf(self) -> bool:
        """Whether the kernel is to describe its types, which pahole makes of debug info."""
        return self.options.get("CONFIG_DEBUG_INFO_BTF") == "y"

    @property
    def debug_info(self) -> bool:
        """Whether the compiler is to write debug info (DWARF)."""
        return any(
            _DEBUG_INFO.fullmatch(name) for name, value in self.options.items() if value == "y"
        )

    @property
    def keeps_debug_info(self) -> bool:
        """Whether it stays in the vmlinux, of which it is nine tenths; BTF needs it only once."""
        return not self.btf or any(
            self.options[name] == "y" and _DEBUG_INFO.fullmatch(name) for name in self.named
        )

    def text(self) -> str:
        """Write it for Kconfig, sorted: how it was written makes no other kernel."""
        return "".join(
            f"# {name} is not set\n" if value == "n" else f"{name}={value}\n"
            for name, value in sorted(self.options.items())
        )


def parse_set(text: str) -> tuple[str, str]:
    """Split CONFIG_X=y in two; UserError shows how to write it."""
    name, equals, value = text.partition("=")
    if not equals or not _OPTION.fullmatch(name) or not _VALUE.fullmatch(value):
        remedy = "Write it like --config CONFIG_SECCOMP=y, n or m."
        raise UserError(f"'{text}' sets no config option.", remedy)
    return name, value


def read(text: str) -> dict[str, str]:
    """Return the options that a .config or a part of one sets, off ones as n."""
    options = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if off := _OFF.fullmatch(line.strip()):
            options[off[1]] = "n"
        elif equals and _OPTION.fullmatch(name):
            options[name] = value
    return options


def tiny(arch: Arch, last: str = TINY) -> Config:
    """Join kentry's fragments for allnoconfig; USERLAND adds what a distribution needs, and BTF."""
    options: dict[str, str] = {}
    optional: set[str] = set()
    for name in dict.fromkeys(("boot", TINY, last)):
        text = _fragment(name, arch)
        options |= read(text)
        optional |= set(re.findall(r"^# optional:.*\n(CONFIG_\w+)=", text, re.MULTILINE))
    return Config(options, whole=False, strict=frozenset(options) - optional)


def _fragment(name: str, arch: Arch) -> str:
    files = (_FOLDER / f"{name}.config", _FOLDER / f"{name}-{arch.name}.config")
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def distro(text: str, arch: Arch) -> Config:
    """Take modules and drivers from a distribution's config, and add what the guest boots."""
    own = read(text)
    kept = {
        name: "n" if _SOC.match(name) and value == "y" else value
        for name, value in own.items()
        if value != "m"
    }
    kept |= read((_FOLDER / "distro-off.config").read_text(encoding="utf-8"))
    boot = read(_fragment("boot", arch))
    kept |= boot
    # EXPERT would show options that the distribution never chose.
    kept["CONFIG_EXPERT"] = own.get("CONFIG_EXPERT", "n")
    return Config(kept, whole=True, strict=frozenset(boot) - {"CONFIG_EXPERT"})


def of_file(name: str, text: str | None = None) -> Config:
    """Read a user's .config, or the `text` of one of the source's; UserError, BuildError."""
    remedy = (
        "Use --config tiny, userland or distro, or name a kernel's .config, or a file of its"
        " source: arch/arm64/configs/defconfig."
    )
    file = Path(os.path.expanduser(name))
    if text is None:
        options = read(read_at_most(file, MOST_BYTES, remedy).decode("utf-8", "replace"))
    else:
        options = read(text)
    if not options:
        raise UserError(f"{name} sets no option.", remedy)
    # Of a defconfig Kconfig leaves out what the source has no more, and says nothing.
    is_strict = not file.name.endswith("defconfig")
    strict = {
        option
        for option, value in options.items()
        if is_strict and value != "n" and not _FACTS.match(option)
    }
    own = name if text is not None else ""
    return Config(options, whole=True, strict=frozenset(strict), file=own)


def with_sets(config: Config, sets: Sequence[str]) -> Config:
    """Add to `config` what --config CONFIG_X=y asks for, which nothing may drop."""
    chosen = dict(parse_set(text) for text in sets)
    strict, named = config.strict - chosen.keys(), config.named | chosen.keys()
    # A choice has one option on: naming another turns the first one off.
    return replace(config, options={**config.options, **chosen}, strict=strict, named=named)


def dropped(config: Config, got: Mapping[str, str]) -> list[str]:
    """Return the options, sorted, that must be as asked for and are not."""
    return sorted(
        name for name in config.strict | config.named if got.get(name, "n") != config.options[name]
    )


def given_up(name: str, config: Config, reason: str) -> bool:
    """Return whether an option of a config is missing because the user turned off what it needs."""
    off = {o.removeprefix("CONFIG_") for o in config.named if config.options[o] == "n"}
    return name not in config.named and not off.isdisjoint(re.findall(r"\w+", reason))


def dropped_error(names: Sequence[str], config: Config, why: Mapping[str, str]) -> BuildError:
    """Name each option and what it wants; `why` has a clause for each."""
    clauses = [f"{name}={config.options[name]} ({why[name]})" for name in names[:_NAMED]]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return BuildError(
        f"Kconfig dropped {', '.join(clauses)}{more}.",
        "Set what is missing as well, with --config CONFIG_X=y or in the config's file, or"
        " leave the option out.",
    )


def check_machine(got: Mapping[str, str], arch: Arch, knows: Callable[[str], bool]) -> None:
    """BuildError names the options of configs/machine that `got` lacks and the tree `knows`."""
    lacks: list[str] = []
    sets: dict[str, str] = {}
    for line in (_FOLDER / "machine").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, option, turn_on, what = line.split(None, 3)
        if name in ("all", arch.name) and got.get(option) != "y" and knows(option):
            lacks.append(f"{option} ({what})")
            names = [word for word in turn_on.split(",") if got.get(word) != "y" and knows(word)]
            sets |= {word: f"--config {word}=y" for word in names}
    if lacks:
        raise BuildError(
            f"The config does not boot in QEMU's machine for {arch.name}: it lacks"
            f" {', '.join(lacks)}.",
            f"Add {' '.join(sets.values())}.",
        )


@dataclass(frozen=True)
class Option:
    """One option, what it is set to where it is on, and what is on with and without it."""

    name: str
    value: str = "y"
    needs: tuple[str, ...] = ()


def entry_options() -> list[Option]:
    """Return the options that shape kernel entry, of every architecture."""
    return parse_options(str(_FOLDER / "entry-options"))


def parse_options(text: str) -> list[Option]:
    """Read CONFIG_A,CONFIG_B or a file of options; UserError shows how to write one."""
    if text.startswith("CONFIG_"):
        return [_option(word, text) for word in text.split(",")]
    file = Path(os.path.expanduser(text))
    lines = read_at_most(file, MOST_BYTES, _WRITTEN).decode("utf-8", "ignore").splitlines()
    rows = filter(None, (line.partition("#")[0].strip() for line in lines))
    options = [_option(row, f"{file}: {row}") for row in rows]
    if not options:
        raise UserError(f"{file} names no option.", _WRITTEN)
    return options


def _option(text: str, where: str) -> Option:
    first, *rest = text.split() or [""]
    if not first or (rest and rest[0] != "with"):
        raise UserError(f"'{where}' names no config option.", _WRITTEN)
    # Without a value an option is on.
    settings = [word if "=" in word else f"{word}=y" for word in (first, *rest[1:])]
    (name, value), *needs = map(parse_set, settings)
    if value == "n":
        raise UserError(f"'{where}' is off in both kernels.", "Leave =n out.")
    return Option(name, value, tuple("=".join(pair) for pair in needs))
