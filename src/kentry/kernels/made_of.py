# SPDX-License-Identifier: GPL-2.0-or-later
"""What a built kernel was made of: the source files that were read, and its object files.

Two questions of a bisection are answered from it without a build, and without a boot.  Whether a
commit can change the kernel at all: compiles_none_of().  Whether two kernels execute the same
instructions in some functions: same_code().  Both say False where they do not know.
"""

import contextlib
import functools
import hashlib
import os
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import msgspec

from kentry.host import sandbox
from kentry.host.cache import read_json, sha256_of, write_atomically
from kentry.path.symbols import base_name

_FILE = "made-of.json"
# Of a file that a build leaves: a vmlinux of allyesconfig, with debug info, has 1.5 GB.
MOST_BYTES = 2 << 30
# Of an object file, or of a vmlinux without debug info; of what is text; bytes.
_MOST_OBJECT, MOST_TEXT = 512 << 20, 16 << 20

# --- which files may change without changing the kernel, as in Linux 6.12 ---

# Nothing below is read by a build.  Of tools/, the kernel's Makefile builds objtool and
# resolve_btfids, which use tools/{arch,bpf,build,include,lib,scripts}: not listed here.
_NOT_BUILT = (
    "LICENSES/",
    *(f"tools/{name}/" for name in ("perf", "power", "testing", "tracing", "verification")),
)
# Of these only make's own files are read without a word in a dependency file: lib/Kconfig.debug
# sources Documentation/Kconfig and samples/Kconfig, and CONFIG_SAMPLES reads samples/Makefile.
_NOT_BUILT_BUT_CONFIGURED = ("Documentation/", "samples/")
_MAKE = re.compile(r"(Makefile|Kbuild|Kconfig).*|Platform|.*\.(mk|include)")
# defconfigs are read by make *defconfig only; one that a kernel has its config from is among files.
_CONFIGS = re.compile(r"arch/[^/]+/configs/.*")
_NOT_CODE = re.compile(
    r"(.*/)?\.(gitignore|clang-format|editorconfig|mailmap|get_maintainer\.ignore)"
    r"|CREDITS|COPYING|MAINTAINERS|README|.*\.rst"
)
# Programs that make what is compiled, what is put in whole, other forms of dependency files.
_READ_WHOLE = ("scripts/", "usr/", "certs/", "tools/")
# Compilers read these, and -MMD (for device trees dtc -d) names each in a dependency file.  Other
# files (*.tbl, *.awk, *.bc, *_shipped, what .incbin takes) are read also by rules that leave none:
# filechk of scripts/Kbuild.include, and "call cmd".  Rust is never compiled: build.py passes
# RUSTC=false.
_COMPILED = re.compile(r".*\.([chS]|dtsi?|dtso|rs)")
# CONFIG_IKHEADERS packs all headers into this one.
_ALL_HEADERS = "kernel/kheaders.o"
# Every compiler's command line has it: dependency files without it were not understood.
_ALWAYS_READ = "include/linux/kconfig.h"

# --- what of an object file decides what is executed ---

# WARN() and BUG() have line numbers in this table, which only their trap's handler reads.
_NOT_EXECUTED = re.compile(r"__bug_table|\.note.*")
_WRITE, _ALLOC, _EXECINSTR = 1, 2, 4
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_CODE_TYPES = {0, 2, 10}
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_TYPE = 0xFFFFFFFF
# What reading another or a damaged file raises.
_NOT_ELF = (ValueError, IndexError, struct.error)
# Marks for disassemblers and local labels name no function.
_NO_FUNCTION = ("$", ".L")


@dataclass(frozen=True)
class MadeOf:
    """What a built kernel was made of, by make's own dependency files and by its object files.

    `files` are source files, relative to the tree's top, that any compile or link read.  `objects`
    has the object files of vmlinux, relative to the build folder, each with the SHA-256 of its
    code, data and relocations, without line numbers and debug info.  `functions` has a symbol's
    name with the objects that define it.  `sizes` has the bytes that each function has in vmlinux:
    a linker shortens calls (RISC-V) and adds functions of its own (arm64's errata).
    """

    files: frozenset[str]
    objects: Mapping[str, str]
    functions: Mapping[str, frozenset[str]]
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def read(folder: Path) -> MadeOf | None:
    """Return what the kernel in a folder of build.built() was made of; None if that is damaged."""
    file = folder / _FILE
    with contextlib.suppress(OSError, KeyError, UnicodeDecodeError, msgspec.MsgspecError):
        if read_json(folder / "manifest.json")["sha256"][_FILE] == sha256_of(file):
            return msgspec.json.decode(file.read_bytes(), type=MadeOf)
    return None


def write(folder: Path, made: MadeOf) -> Path:
    """Write what read() reads; return the file."""
    file = folder / _FILE
    write_atomically(file, msgspec.json.encode(made, order="sorted"))
    return file


def collect(objects: Path, tree: Path, vmlinux: Path, read: Iterable[str] = ()) -> MadeOf:
    """Return what `vmlinux` was made of in the folder `objects` from the source in `tree`."""
    # Of the source kentry itself has `read` files.
    hashes: dict[str, str] = {}
    functions = defaultdict[str, set[str]](set)
    for name in sorted(_linked(objects)):
        if not (data := _content(objects / name)):
            # A word of a command that is no file; a function of a lost one is in no known object.
            continue
        try:
            elf = _Elf(data)
            hashes[name] = elf.gives()
            # Not all code is in sections marked as such: arm64's .idmap.text is not.
            for function, _ in elf.functions(_ALLOC):
                functions[function].add(name)
        except _NOT_ELF:
            # With CONFIG_LTO_CLANG not machine code: then no object defines a function.
            hashes[name] = hashlib.sha256(data).hexdigest()
    sizes = defaultdict[str, list[int]](list)
    with contextlib.suppress(*_NOT_ELF):
        for name, size in _Elf(_content(vmlinux)).functions(_ALLOC | _EXECINSTR):
            sizes[name].append(size)
    return MadeOf(
        frozenset([*_source_files(objects, tree), *read]),
        hashes,
        {name: frozenset(where) for name, where in functions.items()},
        {name: tuple(sorted(lengths)) for name, lengths in sizes.items()},
    )


def compiles_none_of(made: MadeOf, changed: Sequence[tuple[str, str]]) -> bool:
    """Whether a rebuild with these changes (letters, paths) provably gives the same kernel."""
    # The kernel's own, of which files were read: drivers/ has Kconfig read one of each.
    own = {
        path.split("/")[1]
        for path in made.files
        if path.startswith("arch/") and not PurePosixPath(path).name.startswith("Kconfig")
    }
    if _ALWAYS_READ not in made.files or not own:
        return False
    return all(_harmless(made, own, status, path) for status, path in changed)


def _harmless(made: MadeOf, own: set[str], status: str, path: str) -> bool:
    # A rename has another end, which is not named here.
    if path in made.files or status not in ("A", "D", "M", "T"):
        return False
    # Of another architecture only Kconfig files are read, which are among the files.
    arch = path.split("/")[1:-1] if path.startswith("arch/") else []
    elsewhere = bool(arch) and arch[0] not in own
    if elsewhere or path.startswith(_NOT_BUILT) or _CONFIGS.fullmatch(path):
        return True
    if _MAKE.fullmatch(PurePosixPath(path).name):
        return False
    if path.startswith(_NOT_BUILT_BUT_CONFIGURED) or _NOT_CODE.fullmatch(path):
        return True
    # A new or a missing file may change which one is found: a header of the same name in another
    # folder, foo.c in place of foo.S, what $(wildcard) or __has_include() looks for.
    if status != "M" or path.startswith(_READ_WHOLE) or not _COMPILED.fullmatch(path):
        return False
    return not (path.endswith(".h") and _ALL_HEADERS in made.objects)


def same_code(own: MadeOf, other: MadeOf, executed: Iterable[str]) -> bool:
    """Whether both kernels have the same code in the `executed` functions, by symbol names."""
    # False where a function is in no known object.  Not looked at are data of other objects, which
    # may lead the code along another path: a table of pointers, the initial value of a switch.
    names = set(executed)
    # What no object defines the linker has made: veneers, which lengthen a path.
    added = [made.sizes.keys() - made.functions.keys() for made in (own, other)]
    # Other clones of a function count too: a name may lack what compilers append.
    clones = {base_name(name) for name in names}
    known = _known(own, clones)
    if not names <= clones | own.functions.keys() or not all(known.values()):
        return False
    return bool(names) and added[0] == added[1] and known == _known(other, clones)


def _known(made: MadeOf, clones: set[str]) -> dict[str, set[tuple[str, str | int]]]:
    known: dict[str, set[tuple[str, str | int]]] = {name: set() for name in clones}
    for function, where in made.functions.items():
        if (name := base_name(function)) in known:
            known[name] |= {(path, made.objects[path]) for path in where}
            known[name] |= {(function, size) for size in made.sizes.get(function, ())}
    return known


# --- make's files ---


def _source_files(objects: Path, tree: Path) -> set[str]:
    """Return the files of `tree` that any command names, or had read when it was run."""
    # On command lines too, where scripts' files are; earlier commits' objects make it only more.
    absolute = re.compile(re.escape(f"{tree}/") + r"([^\s\"'();:,]+)")
    paths: set[str] = set()
    named: set[str] = set()
    for command in (*objects.rglob(".*.cmd"), *objects.rglob("auto.conf.cmd")):
        text = _content(command).decode(errors="replace")
        paths.update(absolute.findall(text))
        named.update(text.split())
    # Kconfig names its files from the tree's top, make from the folder that it compiles in.
    relative = {word for word in named if not word.startswith(("-", "/", "$"))}
    paths |= relative
    paths |= {os.path.relpath(objects / word, tree) for word in relative if word.startswith("..")}
    top = f"{os.path.realpath(tree)}/"
    real_folder = functools.cache(os.path.realpath)
    files = set()
    for path in {os.path.normpath(word) for word in paths}:
        file = f"{top}{path}"
        if path.startswith("..") or not os.path.isfile(file):
            continue
        files.add(path)
        # scripts/dtc/include-prefixes/ has links to the folders of other architectures.
        real = f"{real_folder(os.path.dirname(file))}/{os.path.basename(file)}"
        if os.path.islink(real):
            real = os.path.realpath(real)
        if real.startswith(top):
            files.add(real.removeprefix(top))
    return files


def _linked(objects: Path) -> set[str]:
    command = _content(objects / ".vmlinux.o.cmd").decode(errors="replace")
    files = {word for word in command.split() if word.endswith((".a", ".o"))} - {"vmlinux.o"}
    if not files:
        # scripts/link-vmlinux.sh of Linux 5.10 writes down nowhere what it links.  Then it is all
        # that was ever compiled here: more objects can only make two kernels differ.
        commands = objects.rglob(".*.o.cmd")
        files = {os.path.relpath(file.with_name(file.stem[1:]), objects) for file in commands}
    names: set[str] = set()
    for word in files:
        names.update(_members(objects, word) if word.endswith(".a") else [word])
    paths = {os.path.normpath(name) for name in names}
    return {path for path in paths if not path.startswith(("..", "/"))}


def _members(objects: Path, archive: str) -> list[str]:
    """Return the names in a thin archive (ar(1), "T"), which are relative to its folder."""
    # The header of the table of names has 60 bytes; an index of symbols may stand before it.
    data = _content(objects / archive)
    table = re.search(rb"[\0\n]// {46}(\d{1,10}) *`\n", data)
    if not table or not data.startswith(b"!<thin>\n"):
        return []
    names = data[table.end() :][: int(table[1])].decode(errors="replace").split("/\n")
    return [os.path.join(os.path.dirname(archive), name) for name in names if name.strip()]


def _content(file: Path) -> bytes:
    """Read a file; b"" for all else: a build may have made a pipe or a link of that name."""
    most = MOST_TEXT if file.suffix == ".cmd" else _MOST_OBJECT
    is_usable = file.is_file() and sandbox.is_plain(file) and file.stat().st_size <= most
    return file.read_bytes() if is_usable else b""


# --- object files ---


class _Elf:
    """The sections and symbols of a 64-bit little-endian ELF file; else _NOT_ELF is raised."""

    # pyelftools makes an object of each symbol: 6 s for those of a tiny kernel, this 0.5 s.

    def __init__(self, data: bytes) -> None:
        self.data = data
        if not data.startswith(b"\x7fELF\x02\x01"):
            raise ValueError("not a 64-bit little-endian ELF file")
        (at,) = struct.unpack_from("<Q", data, 40)
        count, names = struct.unpack_from("<HH", data, 60)
        headers = data[at : at + count * _SECTION_HEADER.size]
        self.sections = list(_SECTION_HEADER.iter_unpack(headers))
        headings = self.content(names)
        self.names = [_string(headings, section[0]) for section in self.sections]
        self.symbols: list[tuple[int, ...]] = []
        self._strings = b""
        for index, section in enumerate(self.sections):
            if section[1] == _SYMTAB:
                self.symbols = list(_SYMBOL.iter_unpack(self.content(index)))
                self._strings = self.content(section[6])

    def content(self, index: int) -> bytes:
        """Return a section's bytes in the file."""
        section = self.sections[index]
        return b"" if section[1] == _NOBITS else self.data[section[4] : section[4] + section[5]]

    def functions(self, flags: int) -> Iterator[tuple[str, int]]:
        """Yield functions and labels in sections with `flags` that nobody writes, with sizes."""
        mask = flags | _WRITE
        code = {i for i, section in enumerate(self.sections) if section[2] & mask == flags}
        for symbol in self.symbols:
            _, info, _, index, _, size = symbol
            if index in code and info & 15 in _CODE_TYPES:
                name = _string(self._strings, symbol[0])
                if name and not name.startswith(_NO_FUNCTION):
                    yield name, size

    def gives(self) -> str:
        """Return the SHA-256 of what the linker takes: see MadeOf.objects."""
        digest = hashlib.sha256(self.data[16:20] + self.data[48:52])
        taken = {
            index
            for index, section in enumerate(self.sections)
            if section[2] & _ALLOC and not _NOT_EXECUTED.fullmatch(self.names[index])
        }
        # Local names have line numbers in them (__initcall__kmod_NAME__COUNTER_LINE_FUNCTION), and
        # debug info has symbols of its own: a local symbol is the place that it stands for.
        meanings = [_SYMBOL.pack(0, *symbol[1:]) for symbol in self.symbols]
        for index, symbol in enumerate(self.symbols):
            if symbol[1] >> 4:
                meanings[index] += _string(self._strings, symbol[0]).encode() + b"\0"
                digest.update(meanings[index])
        for index, (_, kind, flags, _, _, size, _, about, align, _) in enumerate(self.sections):
            if index not in taken and (kind != _RELA or about not in taken):
                continue
            name = self.names[index]
            digest.update(f"{index} {name} {kind} {flags} {size} {about} {align}\n".encode())
            content = self.content(index)
            if kind != _RELA:
                digest.update(content)
                continue
            for where, info, addend in _RELOCATION.iter_unpack(content):
                digest.update(_RELOCATION.pack(where, info & _TYPE, addend) + meanings[info >> 32])
        return digest.hexdigest()


def _string(strings: bytes, at: int) -> str:
    end = strings.find(b"\0", at)
    return strings[at : end if end >= 0 else None].decode(errors="replace")
