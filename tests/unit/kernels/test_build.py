# SPDX-License-Identifier: GPL-2.0-or-later
"""From source to a built kernel with tuxmake and make, on a tree that compiles nothing.

What is built ends in the cache whole or not at all, and is not built twice.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from kentry.arch import Arch
from kentry.cli import main
from kentry.errors import EXIT_STOP, BuildError, DamagedSourceError, MissingToolError, UserError
from kentry.host import sandbox
from kentry.host.cache import cache_dir, read_manifest
from kentry.kernels import build, made_of
from kentry.kernels.config import Request
from kentry.kernels.repository import Revision
from kentry.kernels.resolve import resolve
from tests.builders import needs_bubblewrap
from tests.processes import PATIENCE, script
from tests.unit.kernels import fakes, sources
from tests.unit.kernels.conftest import Said
from tests.unit.kernels.sources import commit, put, revision

ARM64 = fakes.ARM64
PREBUILT: Mapping[str, str | bytes] = {
    "prebuilt/Image": fakes.image(),
    "prebuilt/vmlinux": fakes.vmlinux(),
}
# A kentry of its own, to be killed or to come at the same time.
KENTRY = """
import sys
from kentry.kernels.config import Request
from kentry.kernels.resolve import resolve
from kentry.arch import find_arch
say = lambda fraction, now: print(now, flush=True)
kernel = resolve(sys.argv[1], find_arch("arm64"), say, Request(sets=tuple(sys.argv[2:])))
print("kernel", kernel.image_sha256)
"""


# Each runs tuxmake or apt.
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    sources.pretend_tools(tmp_path / "bin", monkeypatch)
    sandbox.works.cache_clear()
    if not sandbox.works():
        monkeypatch.setenv(sandbox.ALLOW_VARIABLE, "1")
    sandbox.works.cache_clear()
    yield
    sandbox.works.cache_clear()


def plan_of(revision: Revision, *sets: str, request: Request | None = None) -> build.Build:
    return build.plan(revision, ARM64, request or Request(sets=sets), Said())


def made(revision: Revision, *sets: str, request: Request | None = None) -> tuple[Path, Said]:
    """The folder of the built kernel, and what was said."""
    said = Said()
    folder = build.built(plan_of(revision, *sets, request=request), said)
    assert read_manifest(folder)
    return folder, said


def tree_with(folder: Path, name: str, more: str) -> Revision:
    """The source with more text at the end of a file."""
    text = (sources.FAKE / name).read_text(encoding="utf-8")
    return revision(sources.repository(folder / "linux", {name: text + more}))


def log_of(error: BuildError) -> str:
    return Path(error.remedy.removeprefix("The whole log is ").removesuffix(".")).read_text()


def steps(said: Said) -> list[str]:
    return sorted(text.split()[1] for text in said if text.startswith("building: "))


def failed(revision: Revision, *sets: str, request: Request | None = None) -> BuildError:
    with pytest.raises(BuildError) as raised:
        made(revision, *sets, request=request)
    return raised.value


ALL = ["Image", "arch/arm64/kernel/entry.o", "init/main.o", "kernel/fork.o", "vmlinux"]


def test_a_damaged_copy_of_the_source_is_not_built_and_made_again(tmp_path: Path) -> None:
    folder = sources.unpacked(tmp_path / "linux", PREBUILT)
    first, other = (Request(sets=(f"CONFIG_NET={value}",)) for value in "yn")
    kernel = resolve(f"tree:{folder}", ARM64, Said(), first)
    own = revision(folder).repository
    for file in (own.git.folder / "objects").glob("??/*"):
        file.chmod(0o600)
        file.write_bytes(b"")
    put(own.work / "kernel/fork.c", "damaged, too")
    with pytest.raises(DamagedSourceError):
        resolve(f"tree:{folder}", ARM64, Said(), other)
    again = resolve(f"tree:{folder}", ARM64, Said(), other)
    assert again.image_sha256 == kernel.image_sha256


def test_a_kernel_from_its_source_and_not_built_twice(tmp_path: Path) -> None:
    linux = sources.repository(tmp_path / "linux", PREBUILT)
    before = sources.listing(linux)
    said, again = Said(), Said()
    found, request = revision(linux), Request(sets=("CONFIG_NET=y",))
    kernel = build.kernel("tree:linux", found, ARM64, request, said)
    assert sources.listing(linux) == before
    assert steps(said) == ALL
    assert kernel.image.read_bytes() == PREBUILT["prebuilt/Image"]
    assert kernel.symbols.address_of("local_function")
    assert kernel.symbols_from.startswith("vmlinux ")
    assert kernel.config
    assert "CONFIG_NET=y" in kernel.config.read_text().splitlines()
    assert kernel.spec == "tree:linux"
    wanted = {"config": "tiny", "config_set": "CONFIG_NET=y", "linker": "GNU ld (Test) 2.40"}
    wanted |= {"tree": found.tree, **found.origin}
    assert wanted.items() <= kernel.origin.items()
    assert str(tmp_path) not in json.dumps(kernel.origin)
    (tmp_path / "bin/make").write_text("#!/bin/sh\nexit 1\n")
    assert build.kernel("tree:linux", revision(linux), ARM64, request, again) == kernel
    assert steps(again) == []
    (tmp_path / "bin/make").unlink()
    anew = build.kernel("tree:linux", found, ARM64, request, said, anew=cache_dir("scratch"))
    assert anew.image != kernel.image
    assert (anew.image_sha256, anew.origin) == (kernel.image_sha256, kernel.origin)


def test_the_progress_is_of_the_steps_of_the_last_build_of_its_kind(tmp_path: Path) -> None:
    def fractions(said: Said) -> list[float | None]:
        told = zip(said, said.fractions, strict=True)
        return [done for text, done in told if text.startswith("building: ")]

    linux = sources.repository(tmp_path / "linux")
    _, said = made(revision(linux))
    assert fractions(said) == [None] * len(ALL)
    # A build of three steps says nothing of the next whole one.
    commit(linux, "second", {"kernel/fork.c": sources.fork_c(first=10)})
    _, said = made(revision(linux))
    assert fractions(said) == [None] * 3
    other = sources.repository(tmp_path / "other", {"kernel/fork.c": sources.fork_c(first=11)})
    _, said = made(revision(other))
    assert fractions(said) == [0.2, 0.4, 0.6, 0.8, 0.99]
    assert any("(2 of about 5)" in text for text in said)
    commit(linux, "third", {"kernel/fork.c": sources.fork_c(first=12)})
    _, said = made(revision(linux))
    assert fractions(said) == [1 / 3, 2 / 3, 0.99]


def test_only_what_a_change_touches_is_made_again(tmp_path: Path) -> None:
    linux = sources.repository(tmp_path / "linux")
    first, said = made(revision(linux))
    assert steps(said) == ALL
    commit(linux, "second", {"kernel/fork.c": sources.fork_c(first=10)})
    second, said = made(revision(linux))
    assert steps(said) == ["Image", "kernel/fork.o", "vmlinux"]
    assert b"return 10;" in (second / "image").read_bytes()
    assert b"return 10;" not in (first / "image").read_bytes()
    # Back at the first, which the cache has.
    third, said = made(revision(f"{linux}@v6.12"))
    assert (third, steps(said)) == (first, [])
    # A file that is not compiled makes another tree, and no file again.
    commit(linux, "third", {"README": "text\n"})
    third, said = made(revision(linux))
    assert third != second
    assert steps(said) == []
    assert (third / "image").read_bytes() == (second / "image").read_bytes()


def test_a_commits_new_warnings_are_named_whatever_was_compiled_before(tmp_path: Path) -> None:
    linux = sources.repository(tmp_path / "linux")
    first = revision(linux)
    made(first)
    text = sources.fork_c() + "#warning one\n"
    commit(linux, "second", {"kernel/fork.c": text})
    second = revision(linux)
    made(second)
    commit(linux, "third", {"kernel/fork.c": text + "#error\n"})
    failed(revision(linux))
    commit(linux, "fourth", {"kernel/fork.c": "\n" + text, "init/main.c": "#warning two\n"})
    fourth = revision(linux)
    made(fourth)
    line = len(text.splitlines())
    new = [build.new_warnings(plan_of(first), plan_of(one)) for one in (first, second, fourth)]
    one, two = f"kernel/fork.c:{line}: #warning one", "init/main.c:1: #warning two"
    assert new == [[], [one], [two, one.replace(str(line), str(line + 1))]]
    assert build.new_warnings(plan_of(second), plan_of(fourth)) == [two]
    assert build.new_warnings(plan_of(first), plan_of(first, "CONFIG_NET=y")) is None
    # Objects whose warnings nobody read are compiled again.
    plan_of(fourth).objects().with_suffix(".warnings").unlink()
    commit(linux, "fifth", {"README": "text\n"})
    _, said = made(revision(linux))
    assert steps(said) == ALL
    assert build.new_warnings(plan_of(second), plan_of(revision(linux))) == [two]


@pytest.mark.parametrize("damaged", ["fork.o", "checksums", "warnings"])
def test_damaged_objects_are_compiled_again(tmp_path: Path, damaged: str) -> None:
    linux = sources.repository(tmp_path / "linux")
    first = plan_of(revision(linux))
    made(revision(linux))
    # Its time stays, by which make decides.
    objects = first.objects()
    file = objects / "kernel/fork.o" if damaged == "fork.o" else objects.with_suffix(f".{damaged}")
    before = file.stat()
    content = file.read_bytes()
    file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    commit(linux, "second", {"init/main.c": sources.fork_c()})
    _, said = made(revision(linux))
    assert steps(said) == ALL
    commit(linux, "third", {"init/main.c": "\n" + sources.fork_c()})
    _, said = made(revision(linux))
    assert 0 < len(steps(said)) < len(ALL)


def test_what_makes_another_kernel(tmp_path: Path) -> None:
    found = revision(sources.repository(tmp_path / "linux"))
    plain = plan_of(found).key()
    assert plan_of(found, "CONFIG_SMP=y").key() == plain
    one, other = "CONFIG_NET=y", "CONFIG_AUDIT=y"
    assert plan_of(found, one, other).key() == plan_of(found, other, one).key() != plain
    sources.program(tmp_path / "bin", "aarch64-linux-gnu-gcc", "gcc (Test) 12.3.0")
    assert plan_of(found).key() != plain


def test_the_first_error_is_the_sentence(tmp_path: Path) -> None:
    linux = sources.repository(tmp_path / "linux")
    made(revision(linux))
    bad = sources.fork_c(first=10) + "#error this does not compile\n"
    commit(linux, "broken", {"kernel/fork.c": bad})
    error = failed(revision(linux))
    lines = len(bad.splitlines())
    assert error.sentence.endswith(f"kernel/fork.c:{lines}:2: error: #error this does not compile")
    assert "and another one" in error.detail
    assert "another one" in log_of(error)
    assert error.exit_code == 2
    # Nothing of it is in the cache, and the next one is built from where it was.
    assert failed(revision(linux)).sentence == error.sentence
    commit(linux, "another", {"kernel/fork.c": "#error\n"})
    assert failed(revision(linux)).remedy != error.remedy
    assert "this does not compile" in log_of(error)
    commit(linux, "fixed", {"kernel/fork.c": sources.fork_c(first=10)})
    folder, said = made(revision(linux))
    assert steps(said) == ["Image", "kernel/fork.o", "vmlinux"]
    assert b"return 10;" in (folder / "image").read_bytes()


def test_an_option_that_kconfig_drops_is_named_with_what_it_wants(tmp_path: Path) -> None:
    found = revision(sources.repository(tmp_path / "linux"))
    error = failed(found, "CONFIG_AUDIT=y", "CONFIG_NOTHING=y", "CONFIG_HASH=n", "CONFIG_DRIVER=y")
    for words in ("CONFIG_AUDIT=y (needs NET)", "HASH=n (selected by DRIVER)", "CONFIG_NOTHING=y"):
        assert words in error.sentence
    assert "--config" in error.remedy
    folder, _ = made(found, "CONFIG_AUDIT=y", "CONFIG_NET=y", "CONFIG_HASH=n")
    options = {"CONFIG_AUDIT=y", "CONFIG_PRINTK=y", "# CONFIG_HASH is not set"}
    assert options <= dot_config(folder)


def test_a_users_own_config(tmp_path: Path) -> None:
    found = revision(sources.repository(tmp_path / "linux"))
    file = put(tmp_path / "dot-config", "CONFIG_NET=y\n# CONFIG_FUTEX is not set\n")
    request = Request(str(file))
    folder, _ = made(found, request=request)
    # PRINTK is on by default where the whole config is a user's.
    options = {"CONFIG_NET=y", "CONFIG_PRINTK=y", "# CONFIG_FUTEX is not set"}
    assert options <= dot_config(folder)
    file.write_text("CONFIG_AUDIT=y\n")
    assert "CONFIG_AUDIT=y (needs NET)" in failed(found, request=request).sentence
    file.unlink()
    with pytest.raises(UserError, match="dot-config"):
        made(found, request=request)


def test_a_distributions_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def distro(version: tuple[int, int], arch: Arch, update: object) -> str:
        asked.append((version, arch))
        return "CONFIG_NET=y\nCONFIG_AUDIT=y\nCONFIG_DRIVER=m\n"

    monkeypatch.setattr(build, "distro_config", distro)
    found = revision(sources.repository(tmp_path / "linux"))
    folder, _ = made(found, request=Request("distro"))
    options = {"CONFIG_NET=y", "CONFIG_AUDIT=y", "# CONFIG_DRIVER is not set"}
    assert options <= dot_config(folder)
    assert asked == [((6, 12), ARM64)]


def test_a_kernel_that_describes_its_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    sources.program(programs, "pahole", "v1.24")
    strip = 'test "$1" = --strip-debug && echo "no debug info" > "$2"'
    script(programs / "aarch64-linux-gnu-objcopy", strip)
    # The command line and the environment of make, as the compiler finds them.
    compiler = (sources.FAKE / "scripts/cc.sh").read_text(encoding="utf-8")
    compiler += 'echo "with $PAHOLE $PAHOLE_FLAGS, $KCFLAGS, $KAFLAGS." >> "$2"\n'
    kconfig = (sources.FAKE / "Kconfig").read_text(encoding="utf-8")
    kconfig += 'config DEBUG_INFO_BTF\n\tbool "Types"\n'
    kconfig += 'config DEBUG_INFO_DWARF5\n\tbool "Lines"\n'
    files = {"Kconfig": kconfig, "scripts/cc.sh": compiler}
    found = revision(sources.repository(tmp_path / "linux", files))
    folder, _ = made(found, request=Request("userland"))
    assert "CONFIG_DEBUG_INFO_BTF=y" in (folder / "config").read_text().splitlines()
    nowhere = f"-fdebug-prefix-map={found.repository.folder}=."
    image = (folder / "image").read_text()
    assert f"with pahole --btf_gen_floats, {nowhere}, {nowhere}." in image
    assert (folder / "vmlinux").read_text() == "no debug info\n"
    plain, _ = made(found)
    assert "with false , , ." in (plain / "image").read_text()
    assert "no debug info" not in (plain / "vmlinux").read_text()

    # Debug info that was asked for is kept.
    lines, _ = made(found, request=Request(sets=("CONFIG_DEBUG_INFO_DWARF5=y",)))
    assert f"with false , {nowhere}, {nowhere}." in (lines / "image").read_text()
    assert "no debug info" not in (lines / "vmlinux").read_text()

    both, _ = made(found, request=Request("userland", sets=("CONFIG_DEBUG_INFO_DWARF5=y",)))
    assert both != folder
    assert "no debug info" not in (both / "vmlinux").read_text()

    sources.program(programs, "pahole", "v1.30")
    assert made(found, request=Request("userland"))[0] != folder
    assert made(found)[0] == plain
    (programs / "pahole").unlink()
    monkeypatch.setattr("shutil.which", lambda name: None if name == "pahole" else f"/{name}")
    with pytest.raises(MissingToolError, match="dwarves"):
        made(found, request=Request("userland"))


def test_a_full_disk_is_no_fault_of_the_source(tmp_path: Path) -> None:
    """git bisect run must not skip the commit, because the next one would fail as well."""
    full = "echo 'cc1: error: /tmp/x.s: No space left on device' >&2; exit 1\n"
    found = tree_with(tmp_path, "scripts/cc.sh", full)
    with pytest.raises(UserError, match="room or memory") as caught:
        made(found)
    assert caught.value.bisect_code == EXIT_STOP


def dot_config(folder: Path) -> set[str]:
    """The lines of a built kernel's config."""
    return set((folder / "config").read_text().splitlines())


def test_a_config_that_cannot_boot_in_qemu_is_refused_before_it_is_built(tmp_path: Path) -> None:
    kconfig = "".join(
        f'config {name}\n\tbool "{name}"\n'
        for name in ("SERIAL_8250", "SERIAL_8250_CONSOLE", "SOC_VIRT", "RISCV_SBI")
    )
    kconfig += "config SIFIVE_PLIC\n\tdepends on SOC_VIRT\n\tbool\n"
    found = tree_with(tmp_path, "arch/riscv/Kconfig", kconfig)
    file = put(tmp_path / "vendor.config", "CONFIG_SERIAL_8250=y\nCONFIG_RISCV_SBI=y\n")
    said = Said()
    with pytest.raises(BuildError) as raised:
        build.kernel("tree:x", found, fakes.RISCV64, Request(str(file)), said)
    assert steps(said) == []
    for name in ("CONFIG_SIFIVE_PLIC", "CONFIG_SERIAL_8250_CONSOLE"):
        assert name in raised.value.sentence
    assert "RISCV_SBI" not in raised.value.sentence
    sets = ("CONFIG_SOC_VIRT=y", "CONFIG_SERIAL_8250_CONSOLE=y")
    assert raised.value.remedy == f"Add --config {sets[0]} --config {sets[1]}."


def test_which_options_a_tree_has(tmp_path: Path) -> None:
    files = {"mm/Kconfig.debug": "menuconfig  DEEP\n\tbool\n", "arch/Kconfig": "config COMMON\n"}
    found = revision(sources.repository(tmp_path / "linux", files))
    for name in ("NET", "DEEP", "COMMON", "ARM64_ONLY"):
        assert build.knows_option(found, f"CONFIG_{name}", ARM64)
    for name in ("X86_ONLY", "NE", "NETWORK"):
        assert not build.knows_option(found, f"CONFIG_{name}", ARM64)
    assert build.knows_option(found, "CONFIG_X86_ONLY", fakes.X86_64)


def test_a_damaged_kernel_is_built_again(tmp_path: Path) -> None:
    found = revision(sources.repository(tmp_path / "linux"))
    folder, _ = made(found)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert before.keys() == {"image", "vmlinux", "config", "made-of.json", "manifest.json"}
    for name, content in before.items():
        for damaged in (content[:-9] + b"damaged", b"", None):
            (folder / name).unlink()
            if damaged is not None:
                (folder / name).write_bytes(damaged)
            assert not read_manifest(folder)
            (folder / name).write_bytes(content)
        assert read_manifest(folder)
    (folder / "image").write_bytes(b"")
    assert made(found)[0] == folder
    timed = ("seconds", "whole")
    facts = json.loads(before.pop("manifest.json"))
    again = read_manifest(folder)
    assert all(again[name] == facts[name] for name in again if name not in timed)
    assert {name: (folder / name).read_bytes() for name in before} == before


CONFIG = "arch/arm64/configs/board_defconfig"


def test_a_config_of_the_source_is_that_of_each_commit(tmp_path: Path) -> None:
    """What the source has no option of is left out; a change to the file is a change to build."""
    stale = "CONFIG_GONE_SINCE=y\n"
    dot_config = (made(revision(sources.repository(tmp_path / "first")))[0] / "config").read_text()
    linux = sources.repository(tmp_path / "linux", {CONFIG: dot_config + stale})
    request = Request(config=CONFIG)
    old = revision(linux)
    folder, _ = made(old, request=request)
    assert "CONFIG_NET=y" not in (folder / "config").read_text()
    parts = made_of.read(folder)
    assert parts and CONFIG in parts.files
    assert not made_of.compiles_none_of(parts, [("M", CONFIG)])
    text = dot_config.replace("# CONFIG_NET is not set\n", "") + "CONFIG_NET=y\n"
    commit(linux, "more", {CONFIG: text})
    newer, _ = made(revision(linux), request=request)
    assert newer != folder and "CONFIG_NET=y" in (newer / "config").read_text()
    # A file here goes before one of the source, and a name of neither is an error.
    with pytest.raises(UserError, match="arch/arm64/configs/none"):
        plan_of(old, request=Request(config="arch/arm64/configs/none"))


def test_what_a_build_takes_is_known_from_those_before(tmp_path: Path) -> None:
    linux = sources.repository(tmp_path / "linux")
    first = plan_of(revision(linux))
    assert build.typical_seconds(first) is None
    build.built(first, Said())
    whole = build.typical_seconds(first)
    assert whole and whole[1] == 1 and whole[0] > 0
    # What is compiled again in the same folder is another thing than a whole build.
    commit(linux, "more", {"kernel/fork.c": sources.fork_c(first=10)})
    second = plan_of(revision(linux))
    build.built(second, Said())
    again = build.typical_seconds(second)
    assert again and again[1] == 1
    assert build.typical_seconds(plan_of(revision(linux), "CONFIG_NET=y")) == again


def test_a_kernel_that_does_not_say_what_it_is_of_is_made_again_once(tmp_path: Path) -> None:
    found = revision(sources.repository(tmp_path / "linux"))
    folder, _ = made(found)
    own = made_of.read(folder)
    assert own == made_of.MadeOf(frozenset(), {}, {})
    # As kentry wrote it before it said so.
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["path"], manifest["checksum"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert made_of.read(folder) is None
    # What is compiled is as it was left.
    assert (steps(made(found)[1]), made_of.read(folder)) == ([], own)
    again, said = made(found)
    assert (again, list(said)) == (folder, [])


def test_what_is_built_anew_trusts_nothing_and_leaves_all_as_it_was(tmp_path: Path) -> None:
    found = tree_with(tmp_path, "scripts/cc.sh", 'echo "ccache: $CCACHE_DIR." >> "$2"\n')
    cached, _ = made(found)
    plan = plan_of(found)
    own = cache_dir("scratch", "ccache")
    # What lies there is wrong, and make would not see it.
    (plan.objects() / "kernel/fork.o").write_text("wrong\n")
    before = [sources.listing(folder) for folder in (cached, plan.objects())]
    for _ in range(2):
        # What one left that was killed, newer than all that it would be made of.
        left = plan.objects(anew=True) / "kernel/fork.o"
        sources.write(left.parent, {left.name: "wrong\n"})
        os.utime(left, (2**32, 2**32))
        said = Said()
        folder = build.built(plan, said, anew=own)
        assert folder != cached
        assert steps(said) == ALL
        image = (folder / "image").read_bytes()
        assert (sources.FAKE / "kernel/fork.c").read_bytes() in image
        assert f"ccache: {own}.".encode() in image
        assert read_manifest(folder)
        assert not plan.objects(anew=True).exists()
    after = [sources.listing(folder) for folder in (cached, plan.objects())]
    assert after == before
    assert f"ccache: {cache_dir('ccache')}.".encode() in (cached / "image").read_bytes()
    assert made(found)[0] == cached
    assert [path.name for path in cache_dir("built").iterdir() if path.name[0] == "."] == []


def test_a_build_anew_that_fails_leaves_its_log_and_no_objects(tmp_path: Path) -> None:
    linux = sources.repository(tmp_path / "linux")
    commit(linux, "broken", {"kernel/fork.c": "#error this does not compile\n"})
    plan = plan_of(revision(linux))
    for _ in range(2):
        with pytest.raises(BuildError) as raised:
            build.built(plan, Said(), anew=cache_dir("scratch"))
        assert "kernel/fork.c:1:2: error" in raised.value.sentence
        assert str(tmp_path) not in raised.value.sentence
        assert "another one" in log_of(raised.value)
        assert not plan.objects(anew=True).exists()
        assert {path.suffix for path in cache_dir("built").iterdir()} == {".log"}


def test_defaults_for_tuxmake_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources.write(tmp_path / "home", {".config/tuxmake/default": "--no-such-option\n"})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("TUXMAKE", "--no-such-option")
    monkeypatch.setenv("MAKEFLAGS", "--no-such-option")
    made(revision(sources.repository(tmp_path / "linux")))


def test_a_build_writes_nothing_into_its_source_nor_elsewhere(tmp_path: Path) -> None:
    outside = Path(f"/var/tmp/kentry-test.{os.getpid()}")
    attack = f"touch touched; mount -o remount,bind,rw / && echo x >{outside}"
    found = tree_with(tmp_path, "Makefile", f"$(shell {attack})\n")
    made(found)
    assert (found.repository.work / "touched").exists() != sandbox.works()
    assert not outside.exists()


# What a source that means harm leaves where kentry looks, in the folders that its build may write.
LEFT = {
    "a link": "ln -sf {outside} {file}",
    "a link of a device": "ln -sf /dev/zero {file}",
    "a link of itself": "ln -sf {file} {file}",
    "a pipe": "mkfifo {file}",
    "a folder": "mkdir -p {file}/full",
    "a linked folder": "mv {file} {outside}.moved; rm -rf $$(dirname {file});"
    " ln -s $$(dirname {outside}) $$(dirname {file})",
    "nothing": "true",
}
LOOKED_AT = (
    *("kentry.config", "kentry.warnings", ".config", "vmlinux", "arch/arm64/boot/Image"),
    *("../arm64-tiny-gcc.log/build.log", "../arm64-tiny-gcc.config", "../arm64-tiny-gcc.warnings"),
)


LEADS: list[tuple[str, Sequence[str], int]] = []
LEADS += [(what, LOOKED_AT, ends) for what in LEFT for ends in (0, 1)]
LEADS += [("a link", (name,), 0) for name in LOOKED_AT]
# tuxmake reads its log, and so would wait for ever.
LEADS += [("a pipe", ("../arm64-tiny-gcc.log/build.log",), 0)]


@pytest.mark.parametrize(("what", "names", "ends"), LEADS)
def test_what_a_build_leaves_leads_kentry_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, names: Sequence[str], ends: int
) -> None:
    needs_bubblewrap()
    monkeypatch.setattr(build, "_MOST_SECONDS", 20)
    linux = sources.repository(tmp_path / "linux")
    good = revision(linux)
    outside = [put(tmp_path / "outside" / Path(name).name, "a secret\n") for name in names]
    files = [f"$(obj)/{name}" for name in names]
    words = (LEFT[what].format(outside=o, file=f) for o, f in zip(outside, files, strict=True))
    evil = f"\nImage: evil\nevil: $(boot)/Image\n\t@rm -f {' '.join(files)}; {'; '.join(words)}"
    makefile = (sources.FAKE / "Makefile").read_text()
    commit(linux, "evil", {"Makefile": f"{makefile}{evil}; exit {ends}\n"})
    with contextlib.suppress(BuildError):
        made(revision(linux))
    # The same folder again, for a source that means none.
    folder, _ = made(good)
    assert (sources.FAKE / "kernel/fork.c").read_bytes() in (folder / "image").read_bytes()
    assert [file.read_text() for file in outside[0].parent.iterdir()] == ["a secret\n"] * len(names)
    kept = (file for file in cache_dir("built").rglob("*") if file.is_file())
    assert [file for file in kept if b"a secret" in file.read_bytes()] == []


def test_no_object_is_read_through_a_folder_that_is_a_link(tmp_path: Path) -> None:
    objects, secret = tmp_path / "objects", tmp_path / "secret"
    for folder in (objects, secret):
        put(folder / "key.o", b"a secret")
    (objects / "inner").symlink_to(secret)
    put(objects / ".vmlinux.o.cmd", "ld -o vmlinux.o key.o inner/key.o\n")
    assert set(made_of.collect(objects, tmp_path, objects / "vmlinux").objects) == {"key.o"}


def test_a_build_that_prints_without_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_MOST_PRINTED", 1 << 20)
    found = tree_with(tmp_path, "Makefile", "$(info $(shell head -c 2M /dev/zero | tr '\\0' x))\n")
    failed(found)


def test_a_fork_bomb_in_a_build_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_bubblewrap()
    monkeypatch.setattr(sandbox, "Limits", functools.partial(sandbox.Limits, processes=50))
    bomb = "$(shell for i in $$(seq 200); do sleep 5 & done; sleep 5)\n"
    assert "50 processes" in failed(tree_with(tmp_path, "Makefile", bomb)).sentence


def kentry(linux: Path, *sets: str, machine: Path | None = None) -> subprocess.Popen[str]:
    """It on a `machine` that shares nothing but the cache, with a folder of its own."""
    argv = [sys.executable, "-c", KENTRY, f"tree:{linux}", *sets]
    env = {**os.environ, **({"KENTRY_WORK": str(machine)} if machine else {})}
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)


def texts(running: Sequence[subprocess.Popen[str]]) -> list[str]:
    """What each said that came to an end, the kernel last."""
    said = [process.communicate(timeout=PATIENCE)[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(running)
    assert len({text.splitlines()[-1] for text in said}) == 1
    return said


def test_two_at_once_build_it_once(tmp_path: Path) -> None:
    linux = sources.repository(tmp_path / "linux", PREBUILT)
    said = texts([kentry(linux), kentry(linux)])
    assert sorted("checking out" in text for text in said) == [False, True]


@pytest.mark.parametrize(
    ("when", "confined"), [("checking out", True), ("building: ", True), ("building: ", False)]
)
def test_a_killed_build_is_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, confined: bool
) -> None:
    linux = sources.repository(tmp_path / "linux", {"SLOW": "0.3\n"})
    if not confined:
        monkeypatch.setenv(sandbox.ALLOW_VARIABLE, "1")
        script(tmp_path / "bin/bwrap", "exit 1")
    with kentry(linux) as process:
        assert process.stdout and any(when in line for line in process.stdout)
        time.sleep(random.random() / 2)
        os.kill(process.pid, signal.SIGKILL)
    folder, _ = made(revision(linux))
    image = (folder / "image").read_bytes()
    for name in ("kernel/fork.c", "init/main.c", "arch/arm64/kernel/entry.c"):
        assert b"first half of " + name.encode() in image
        assert (linux / name).read_bytes() in image
    time.sleep(0.4)
    assert read_manifest(folder)
    assert (folder / "image").read_bytes() == image


def test_machines_with_one_cache_build_at_once_each_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """Of one source; what one has built the other finds, and none builds it twice."""
    linux = sources.repository(tmp_path / "linux", PREBUILT)
    machines = [tmp_path / name for name in ("one", "two", "three")]
    sets: Sequence[Sequence[str]] = (["CONFIG_NET=y"], ["CONFIG_NET=n"], [])
    texts([kentry(linux, *words, machine=m) for m, words in zip(machines, sets, strict=True)])
    for machine in machines:
        [folder] = (machine / "trees").glob("*/linux")
        assert (folder / "Makefile").exists()
    assert not list((cache_dir("trees")).glob("*/linux/Makefile"))
    # The same kernel, asked for by three at once.
    commit(linux, "more", {"kernel/fork.c": sources.fork_c(first=10)})
    said = texts([kentry(linux, machine=machine) for machine in machines])
    assert sum("building: " in text for text in said) == 1


def test_a_user_may_build_without_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path / "bin/bwrap", "exit 1")
    monkeypatch.setenv(sandbox.ALLOW_VARIABLE, "")
    sandbox.works.cache_clear()
    linux = sources.repository(tmp_path / "linux", {"kernel/fork.c": "#error here\n"})
    words = ["record", f"tree:{linux}", "--arch", "arm64", "--case", "getppid"]
    codes, said = [], []
    for more in ([], ["--no-sandbox"]):
        codes.append(main([*words, *more]))
        said.append(capfd.readouterr().err)
    assert codes == [2, 2]
    assert ["--no-sandbox" in said[0], "kernel/fork.c:1" in said[1]] == [True, True]
