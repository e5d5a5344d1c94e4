# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel was made of, from make's files and from objects that a compiler made here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kentry.arch import ARCHES, Arch
from kentry.host.cache import write_manifest
from kentry.kernels import made_of
from kentry.kernels.made_of import MadeOf, compiles_none_of, same_code
from tests.unit.kernels.sources import put, write

KCONFIG_H = "include/linux/kconfig.h"


@pytest.fixture(params=[pytest.param(arch, id=arch.name) for arch in ARCHES.values()])
def arch(request: pytest.FixtureRequest) -> Arch:
    chosen: Arch = request.param
    if not shutil.which(f"{chosen.cross}gcc"):
        pytest.skip(f"no compiler for {chosen.name}: {chosen.cross}gcc")
    return chosen


def source_files(tmp_path: Path, tree: Mapping[str, str], commands: Mapping[str, str]) -> set[str]:
    write(tmp_path / "linux", tree)
    write(tmp_path / "objects", commands)
    return set(collect(tmp_path).files)


def collect(folder: Path) -> MadeOf:
    vmlinux = folder / "objects/vmlinux"
    if not vmlinux.exists():
        write(folder, {"objects/vmlinux": ""})
    return made_of.collect(folder / "objects", folder / "linux", vmlinux)


def test_every_file_that_make_or_a_command_names_was_read(tmp_path: Path) -> None:
    tree = tmp_path / "linux"
    read = [
        *("Kconfig", "init/Kconfig", "kernel/fork.c", KCONFIG_H, "include/linux/sched.h"),
        *("scripts/mod/modpost.c", "kernel/time/timeconst.bc", "arch/riscv/lib/memcpy.S"),
        *("scripts/syscall.tbl", "tools/objtool/check.c", "init/main.c"),
    ]
    unread = ["kernel/acct.c", "drivers/net/Kconfig", "arch/x86/Makefile", "include/new.h"]
    commands = {
        "kernel/.fork.o.cmd": (
            f"savedcmd_kernel/fork.o := gcc -I{tree}/include -include {tree}/{KCONFIG_H}"
            f" -c -o kernel/fork.o {tree}/kernel/fork.c\n\n"
            f"source_kernel/fork.o := {tree}/kernel/fork.c\n\n"
            "deps_kernel/fork.o := \\\n"
            "    $(wildcard include/config/NET) \\\n"
            f"  {tree}/include/linux/../linux/sched.h \\\n"
            "  include/generated/bounds.h \\\n"
            "\nkernel/fork.o: $(deps_kernel/fork.o)\n"
        ),
        # Linux before 6.2 writes cmd_; a folder inside the tree makes all paths relative.
        "init/.main.o.cmd": "cmd_init/main.o := gcc -c ../linux/init/main.c\n",
        "include/generated/.timeconst.h.cmd": (
            f"savedcmd_x := echo 250 | bc -q '{tree}/kernel/time/timeconst.bc' > x\n"
        ),
        "arch/riscv/.a.h.cmd": f'savedcmd_y := sh x.sh "{tree}/scripts/syscall.tbl";  true\n',
        "scripts/mod/.modpost.o.cmd": f"deps_z := \\\n  {tree}/scripts/mod/modpost.c \\\n",
        # The object of another commit, whose files are still there, and one whose are not.
        "arch/riscv/lib/.memcpy.o.cmd": f"deps_a := {tree}/arch/riscv/lib/memcpy.S\n",
        "lib/.gone.o.cmd": f"deps_b := {tree}/lib/gone.c {tree}/lib\n",
        # tools/ calls its compiler in its own folder.
        "tools/objtool/.check.o.cmd": f"cmd_c := gcc -I{tree}/tools {tree}/tools/objtool/check.c\n",
        "include/config/auto.conf.cmd": "deps_config := \\\n\tKconfig \\\n\tinit/Kconfig \\\n",
        "kernel/fork.cmd": f"{tree}/kernel/acct.c\n",
    }
    assert source_files(tmp_path, dict.fromkeys([*read, *unread], ""), commands) == set(read)


def test_a_file_read_through_a_link_is_the_file_itself(tmp_path: Path) -> None:
    tree = tmp_path / "linux"
    own, other = "arch/arm64/boot/dts/a.dts", "arch/arm/boot/dts/b.dtsi"
    write(tree, {own: "", other: "", "scripts/syscall.tbl": "", "arch/arm64/tools/x": ""})
    prefixes = tree / "scripts/dtc/include-prefixes"
    prefixes.mkdir(parents=True)
    (prefixes / "arm").symlink_to("../../../arch/arm/boot/dts")
    (tree / "arch/arm64/tools/syscall_64.tbl").symlink_to("../../../scripts/syscall.tbl")
    (tree / "outside").symlink_to(tmp_path)
    write(tmp_path, {"elsewhere": ""})
    words = [
        *(own, "scripts/dtc/include-prefixes/arm/b.dtsi", "arch/arm64/tools/syscall_64.tbl"),
        *("outside/elsewhere", "../elsewhere", "../../../../etc/passwd"),
    ]
    text = " ".join(f"{tree}/{word}" for word in words)
    found = source_files(tmp_path, {}, {".x.cmd": text})
    assert found == {*words[:4], other, "scripts/syscall.tbl"}


PLAIN = """
#include <stddef.h>
int shared; static int hidden = 3;
extern int callee(int), another(int);
__attribute__((noinline)) static int local(int a) { return callee(a) + shared; }
int function(int a) { return local(a) * hidden + 10; }
const char text[] = "text";
int (*table[])(int) = { function, callee };
static const unsigned short line __attribute__((section("__bug_table"), used)) = __LINE__;
#define PASTE(a, b) a##b
#define NAME(line) PASTE(__initcall__kmod_x__12_, line)
static void *NAME(__LINE__) __attribute__((section(".initcall6.init"), used)) = function;
"""
ASSEMBLY = """
.text
.globl handle_entry
handle_entry:
.Llocal: nop
label_in_it: nop
.type typed, %function
typed: nop
.size typed, . - typed
.section .idmap.text, "a"
idmap_code: nop
.data
.globl data_label
data_label: .long 0
.type data_object, %object
data_object: .long 0
.section .rodata
.type constant, %object
constant: .long 0
"""


def compiled(arch: Arch, folder: Path, name: str, text: str, *words: str) -> Path:
    source = put(folder / (name + (".c" if "#include" in text else ".S")), text)
    target = folder / "objects" / f"{name}.o"
    target.parent.mkdir(parents=True, exist_ok=True)
    argv = [f"{arch.cross}gcc", "-O2", "-g", *words, "-c", str(source), "-o", str(target)]
    subprocess.run(argv, check=True)
    return target


def linked(arch: Arch, folder: Path, *names: str) -> None:
    """vmlinux.a with these objects, and what kbuild writes down of linking them."""
    objects = folder / "objects"
    archive = [f"{arch.cross}ar", "cDPrST", "vmlinux.a", *(f"{name}.o" for name in names)]
    subprocess.run(archive, cwd=objects, check=True)
    write(objects, {".vmlinux.o.cmd": "savedcmd_vmlinux.o := ld -r -o vmlinux.o vmlinux.a"})


def collected(arch: Arch, folder: Path, text: str) -> MadeOf:
    compiled(arch, folder, "one", text)
    linked(arch, folder, "one")
    return collect(folder)


def test_an_object_is_the_same_whatever_its_line_numbers(arch: Arch, tmp_path: Path) -> None:
    one = collected(arch, tmp_path, PLAIN)
    raw = (tmp_path / "objects/one.o").read_bytes()
    for same in (f"/* A comment. */\n\n{PLAIN}", PLAIN.replace("local", "other_name")):
        other = collected(arch, tmp_path, same)
        assert (tmp_path / "objects/one.o").read_bytes() != raw
        assert other.objects == one.objects
    assert same_code(one, collected(arch, tmp_path, f"\n{PLAIN}"), ["function"])


def test_an_object_differs_with_its_code_data_and_what_it_refers_to(
    arch: Arch, tmp_path: Path
) -> None:
    one = collected(arch, tmp_path, PLAIN)
    for old, new in (
        ("+ 10", "+ 11"),
        ("callee(a)", "another(a)"),
        ("hidden = 3", "hidden = 4"),
        ('"text"', '"next"'),
        ("function, callee", "callee, function"),
        ("int function(", "int renamed(int); int function(int) __attribute__((alias("
         '"renamed"))); int renamed('),
        ("int shared;", 'int shared __attribute__((section(".bss..x")));'),
        (".initcall6", ".initcall7"),
    ):  # fmt: skip
        assert old in PLAIN
        other = collected(arch, tmp_path, PLAIN.replace(old, new))
        assert one.objects.keys() == other.objects.keys() == {"one.o"}
        assert one.objects != other.objects, old
        assert not same_code(one, other, ["function"]), old


def test_functions_are_those_of_c_and_of_assembly(arch: Arch, tmp_path: Path) -> None:
    compiled(arch, tmp_path, "kernel/one", PLAIN)
    compiled(arch, tmp_path, "kernel/two", PLAIN.replace("function", "second"))
    compiled(arch, tmp_path, "entry", ASSEMBLY)
    linked(arch, tmp_path, "kernel/one", "kernel/two", "entry")
    functions = collect(tmp_path).functions
    code = {"handle_entry", "label_in_it", "typed", "idmap_code"}
    assert {name for name, where in functions.items() if where == {"entry.o"}} == code
    assert functions["function"] == {"kernel/one.o"}
    assert functions["local"] == {"kernel/one.o", "kernel/two.o"}
    assert not functions.keys() & {"text", "shared", "callee", "data_label", "constant", ""}
    assert not [name for name in functions if name.startswith((".L", "$"))]


def test_only_objects_that_were_linked_count(arch: Arch, tmp_path: Path) -> None:
    for name in ("kernel/one", "lib/two", "head", "kernel/stale"):
        compiled(arch, tmp_path, name, PLAIN)
    objects = tmp_path / "objects"
    ar = [f"{arch.cross}ar", "cDPrST"]
    subprocess.run([*ar, "kernel/built-in.a", "kernel/one.o"], cwd=objects, check=True)
    subprocess.run([*ar, "vmlinux.a", "kernel/built-in.a"], cwd=objects, check=True)
    subprocess.run([*ar, "lib/lib.a", "lib/two.o"], cwd=objects, check=True)
    command = "vmlinux.a head.o --start-group lib/lib.a ./gone/lib.a ../outside.o"
    command += f" {shutil.copy(objects / 'head.o', tmp_path / 'outside.o')}"
    write(objects, {".vmlinux.o.cmd": f"savedcmd_vmlinux.o := ld -o vmlinux.o {command}\n"})
    assert collect(tmp_path).objects.keys() == {"kernel/one.o", "lib/two.o", "head.o"}
    # Of an older kernel nothing says what was linked.
    (objects / ".vmlinux.o.cmd").unlink()
    write(objects, {"kernel/.one.o.cmd": "", "kernel/.stale.o.cmd": "", ".head.o.cmd": ""})
    assert collect(tmp_path).objects.keys() == {"kernel/one.o", "kernel/stale.o", "head.o"}


def test_what_is_no_object_file_defines_nothing(arch: Arch, tmp_path: Path) -> None:
    target = compiled(arch, tmp_path, "one", PLAIN)
    linked(arch, tmp_path, "one")
    data = target.read_bytes()
    hashes = {collect(tmp_path).objects["one.o"]}
    contents = [b"BC\xc0\xde", data[:4] + b"\1" + data[5:]]
    contents += [data[:size] for size in range(20, len(data), len(data) // 40)]
    for content in contents:
        target.write_bytes(content)
        made = collect(tmp_path)
        assert not same_code(made, made, ["no_such_function"])
        hashes.add(made.objects["one.o"])
    assert len(hashes) == len(contents) + 1
    names = b"%-48s%-10s`\n" % (b"//", b"7") + b"one.o/\n"
    write(tmp_path, {"objects/vmlinux.a": b"!<thin>\n" + names})
    assert collect(tmp_path).objects.keys() == {"one.o"}
    for archive in (b"", b"!<thin>\n", b"!<thin>\n" + names.replace(b"7", b"x"), b"x" + names):
        write(tmp_path, {"objects/vmlinux.a": archive})
        assert collect(tmp_path).objects == {}
    (tmp_path / "objects/vmlinux.a").unlink()
    for name in ("vmlinux.a", ".pipe.cmd"):
        os.mkfifo(tmp_path / "objects" / name)
    assert collect(tmp_path).objects == {}


def test_sizes_are_those_that_the_linker_left(arch: Arch, tmp_path: Path) -> None:
    compiled(arch, tmp_path, "one", PLAIN)
    linked(arch, tmp_path, "one")
    vmlinux = tmp_path / "objects/vmlinux"
    ld = [f"{arch.cross}ld", "--unresolved-symbols=ignore-all", "-e", "0"]
    subprocess.run([*ld, "-o", str(vmlinux), "one.o"], cwd=vmlinux.parent, check=True)
    made = collect(tmp_path)
    (size,) = made.sizes["function"]
    assert size > 4
    assert {"text", "shared"}.isdisjoint(made.sizes)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert made_of.read(tmp_path) is None
    made = MadeOf(frozenset({"a"}), {"b.o": "12"}, {"f": frozenset({"b.o"})}, {"f": (4, 8)})
    file = made_of.write(tmp_path, made)
    write_manifest(tmp_path, [file.name])
    assert made_of.read(tmp_path) == made
    whole = file.read_bytes()
    for damaged in (b"", b"{}", whole[:-5], whole.replace(b'["a"]', b'["b"]')):
        file.write_bytes(damaged)
        assert made_of.read(tmp_path) is None


READ = frozenset(
    {
        *(KCONFIG_H, "Kconfig", "arch/Kconfig", "arch/riscv/Kconfig", "drivers/net/Kconfig"),
        *("arch/x86/crypto/Kconfig", "arch/riscv/kernel/entry.S", "kernel/fork.c"),
        *("arch/arm/include/asm/shared.h", "tools/testing/read.h", "lib/x.rst"),
    }
)
OBJECTS = {"kernel/fork.o": "1"}
HARMLESS = """
M drivers/net/driver.c  M drivers/net/driver.h  M include/linux/unread.h
M arch/riscv/kernel/unread.S  M arch/riscv/boot/dts/board.dts  M arch/riscv/boot/dts/chip.dtsi
M rust/kernel/lib.rs  M arch/arm/mm/unread.c  A arch/riscv/configs/defconfig
M arch/riscv/configs/32-bit.config  A arch/x86/include/asm/new.h  D arch/x86/Makefile
M arch/x86/Kconfig  M arch/sparc/tools/table.tbl  A Documentation/index.rst
D Documentation/devicetree/bindings/a.yaml  M Documentation/new.h  A LICENSES/new  M MAINTAINERS
M kernel/.gitignore  M .mailmap  A lib/README.rst  A samples/new.c  M samples/a.sh
A tools/testing/selftests/Makefile  T tools/testing/selftests/link  M tools/perf/builtin.c
M tools/power/x86/Kconfig
"""
MAY_MATTER = """
M kernel/fork.c  D kernel/fork.c  A drivers/net/new.c  D drivers/net/driver.c
A drivers/net/new.h  D include/linux/unread.h  T drivers/net/driver.c
R100 Documentation/moved.rst  C90 drivers/net/driver.c  M Makefile  M Kbuild  M Kconfig
M arch/Kconfig  M arch/Makefile  M arch/riscv/Makefile  M arch/riscv/Makefile.postlink
M arch/riscv/kernel/Makefile  M arch/riscv/Kconfig  A arch/riscv/Kconfig.new
M arch/riscv/kernel/unread.tbl  M arch/riscv/tools/gen.awk  A arch/riscv/boot/dts/board.dts
M arch/arm/Makefile  M arch/arm/Kconfig  M arch/x86/crypto/Kconfig
M arch/arm/include/asm/shared.h  M drivers/net/Makefile  M drivers/net/Kconfig
A drivers/net/Kconfig  M drivers/unread/Kbuild  M drivers/tty/vt/defkeymap.c_shipped
M drivers/video/logo/logo.ppm  M kernel/configs/tiny.config  M kernel/time/timeconst.bc
M lib/script.pl  M lib/x.rst  M scripts/unread.c  M scripts/unread.sh  M usr/unread.c
M certs/unread.S  M tools/objtool/check.c  M tools/include/linux/types.h
M tools/arch/x86/include/asm/insn.h  M tools/lib/string.c  M tools/build/Makefile
M tools/testing/read.h  M Documentation/Kconfig  M Documentation/Makefile  M samples/Kconfig
M samples/Makefile  M README.new  M .gitattributes  M unknown
"""


def rows(text: str) -> list[tuple[str, str]]:
    words = text.split()
    return list(zip(words[::2], words[1::2], strict=True))


@pytest.mark.parametrize("row", rows(HARMLESS), ids=" ".join)
def test_what_no_build_reads_changes_nothing(row: tuple[str, str]) -> None:
    made = MadeOf(READ, OBJECTS, {})
    assert compiles_none_of(made, [row])
    assert not compiles_none_of(made, [row, ("M", "Makefile")])


@pytest.mark.parametrize("row", rows(MAY_MATTER), ids=" ".join)
def test_what_a_build_may_read_may_change_it(row: tuple[str, str]) -> None:
    made = MadeOf(READ, OBJECTS, {})
    assert compiles_none_of(made, rows(HARMLESS)) and compiles_none_of(made, [])
    assert not compiles_none_of(made, [row])
    assert not compiles_none_of(made, [("M", "MAINTAINERS"), row])


def test_a_kernel_that_contains_all_headers_changes_with_each() -> None:
    made = MadeOf(READ, {**OBJECTS, "kernel/kheaders.o": "1"}, {})
    assert not compiles_none_of(made, [("M", "include/linux/unread.h")])
    assert compiles_none_of(made, [("M", "drivers/net/driver.c")])


@pytest.mark.parametrize("missing", [KCONFIG_H, "arch/riscv/kernel/entry.S", None])
def test_nothing_is_said_of_dependency_files_that_were_not_understood(missing: str | None) -> None:
    files = READ - {missing, "arch/arm/include/asm/shared.h"} if missing else frozenset[str]()
    assert not compiles_none_of(MadeOf(files, OBJECTS, {}), [("M", "MAINTAINERS")])


ONE = MadeOf(
    frozenset(),
    {"a.o": "1", "b.o": "2", "c.o": "3"},
    {
        "f": frozenset({"a.o"}),
        "f.cold": frozenset({"a.o"}),
        "g": frozenset({"a.o", "b.o"}),
        "h.constprop.0": frozenset({"c.o"}),
    },
    {"f": (8,), "g": (4, 12), "h.constprop.0": (16,), "_stext": (0,)},
)


def changed(objects: Mapping[str, str] | None = None, **sizes: tuple[int, ...]) -> MadeOf:
    return replace(ONE, objects={**ONE.objects, **(objects or {})}, sizes={**ONE.sizes, **sizes})


@pytest.mark.parametrize(
    ("other", "executed", "same"),
    [
        (ONE, "f g h", True),
        (ONE, "f f.cold h.constprop.0", True),
        (ONE, "", False),
        (ONE, "f unknown", False),
        (ONE, "f.isra.0", False),
        (ONE, "_stext", False),
        (changed({"b.o": "4"}), "f h", True),
        (changed({"b.o": "4"}), "g", False),
        (changed({"c.o": "4"}), "f g", True),
        (changed({"c.o": "4"}), "h", False),
        (changed({"c.o": "4"}), "h.constprop.0", False),
        (changed(f=(6,)), "f", False),
        (changed(f=(6,)), "g h", True),
        (changed(g=(4, 8)), "g", False),
        (changed(e843419_veneer=(8,)), "f", False),
        (MadeOf(ONE.files, {"a.o": "1"}, {"f": frozenset({"a.o"})}, ONE.sizes), "f", False),
        (replace(ONE, functions={**ONE.functions, "f": frozenset({"a.o", "b.o"})}), "f", False),
    ],
)
def test_code_is_the_same_where_objects_are(other: MadeOf, executed: str, same: bool) -> None:
    assert same_code(ONE, other, executed.split()) is same
    assert same_code(other, ONE, executed.split()) is same
