#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A plugin and an init that are none of kentry's count what kentry counts, on six processors.

The plugin is QEMU's own tests/tcg/plugins/insn.c, from Debian's source package of the backports'
QEMU, fetched and compiled here.  It prints after how many instructions each system call and each
return comes.  The init is dd of Debian's busybox, which reads from /dev/zero and writes to
/dev/null, a byte each: kentry's cases read and write.  Of an x86 REP instruction insn.c counts each
dispatch, and kentry one: on zen3, whose kernel clears the byte by REP STOSB, it has 680 for 679.

Usage: python -m bench.another_plugin [ARCH/PROCESSOR...]
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from kentry.arch import Arch, find_arch, host_arch
from kentry.arch.processors import find_processor
from kentry.boot.emulator import (
    BACKPORTS,
    Guest,
    boot_argv,
    emulator_with,
    kernel_words,
)
from kentry.boot.initramfs import Entry, archive
from kentry.host.archive import RELEASES, Archive
from kentry.host.mirror import find_mirror
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve

SPEC = "debian:6.12"
PROCESSORS = (
    *("arm64/cortex-a76", "arm64/neoverse-n1", "x86_64/skylake", "x86_64/cascadelake"),
    *("riscv64/sifive-u74", "riscv64/thead-c906"),
)
# How QEMU's disassembly of a system call and of the return from it begins.
INSTRUCTIONS = {
    "arm64": ("svc", "eret"),
    "x86_64": ("syscall", "sysret"),
    "riscv64": ("ecall", "sret"),
}
LINE = re.compile(r"^0x([0-9a-f]+), '(\S+)[^']*', .*Δ\+(\d+) since", re.MULTILINE)
USER_END = 1 << 55
DEBIANS_VERSION = re.compile(r".*\(Debian (\S+)\)")
DD_WORDS = ("if=/dev/zero", "of=/dev/null", "bs=1", "count=2000")


def quiet(fraction: float | None, now: str) -> None:
    """Says nothing of progress."""


def unpacked(root: Archive, package: str, folder: Path) -> Path:
    """The files of the package of that name."""
    deb = root.download(root.candidates(re.escape(package), quiet)[-1], quiet)
    subprocess.run(["dpkg-deb", "--extract", str(deb), str(folder)], check=True)
    return folder


def source_of_qemu(version: str, folder: Path) -> Path:
    """The folder with the source of Debian's QEMU of that version."""
    mirror, lists = find_mirror(), folder / "lists"
    (lists / "partial").mkdir(parents=True)
    suite = f"{RELEASES[0].name}-backports"
    sources = folder / "sources.list"
    sources.write_text(f"deb-src [signed-by={mirror.keyring}] {mirror.base} {suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": lists,
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in settings.items())]
    for words in (["update"], ["source", "--tar-only", f"qemu={version}"]):
        subprocess.run([*apt, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (tar,) = folder.glob("qemu_*.orig.tar.*")
    subprocess.run(["tar", "-xf", str(tar)], cwd=folder, check=True)
    return next(folder.glob("qemu-*"))


def plugin(version: str, folder: Path) -> Path:
    """QEMU's insn.c as a plugin."""
    source, host = source_of_qemu(version, folder), host_arch()
    glib = unpacked(Archive(host.debian, RELEASES[0]), "libglib2.0-dev", folder / "glib") / "usr"
    (config,) = glib.glob("lib/*/glib-2.0/include")
    headers = [source / "include" / "qemu", glib / "include" / "glib-2.0", config]
    built = folder / "insn.so"
    argv = ["gcc", "-O2", "-shared", "-fPIC", *(f"-I{path}" for path in headers)]
    argv += ["-o", str(built), str(source / "tests" / "tcg" / "plugins" / "insn.c")]
    subprocess.run(argv, check=True)
    return built


def initramfs(program: Path) -> bytes:
    """A file system with the program as /dd, and the devices that dd needs."""
    data = program.read_bytes()
    rows = [
        Entry("dev", 1, stat.S_IFDIR | 0o755),
        Entry("dev/console", 2, stat.S_IFCHR | 0o600, device=(5, 1)),
        Entry("dev/null", 3, stat.S_IFCHR | 0o666, device=(1, 3)),
        Entry("dev/zero", 4, stat.S_IFCHR | 0o666, device=(1, 5)),
    ]
    files = [(row, [b""]) for row in rows]
    return b"".join(archive([*files, (Entry("dd", 5, stat.S_IFREG | 0o755, len(data)), [data])]))


def counted(plugin: Path, arch: Arch, cpu: str, kernel: Kernel, program: Path) -> Counter[int]:
    """How many kernel instructions a system call took, and how often."""
    processor = find_processor(arch, cpu)
    emulator = emulator_with(arch, BACKPORTS, processor)
    log, packed = plugin.with_name("log"), plugin.with_name("initramfs")
    packed.write_bytes(initramfs(program))
    words = [*kernel_words(arch, processor), "rdinit=/dd", "--", *DD_WORDS]
    call, back = INSTRUCTIONS[arch.name]
    argv = [
        *Guest(emulator, arch, processor, 512).argv(),
        *boot_argv(kernel, packed, words),
        *("-plugin", f"{plugin},inline=on,match={call},match={back},trace=on"),
        *("-d", "plugin", "-D", str(log)),
    ]
    # dd ends, so the kernel panics and reboots, which ends QEMU.
    subprocess.run(argv, env={**os.environ, **emulator.env}, check=True, capture_output=True)
    return paired(log.read_text(encoding="utf-8", errors="replace"), call)


def paired(text: str, call: str) -> Counter[int]:
    """The kernel's instructions from each system call of user space to the next return."""
    sums, windows = Counter[str](), Counter[int]()
    began: int | None = None
    for address, name, delta in LINE.findall(text):
        # Each of the two has its own sum: what it comes to is the number of instructions so far.
        which = "call" if name.startswith(call) else "back"
        sums[which] += int(delta)
        if which == "call" and int(address, 16) < USER_END:
            began = sums[which]
        elif which == "back" and began is not None:
            windows[sums[which] - began] += 1
            began = None
    return windows


def recorded(arch: Arch, cpu: str) -> list[int]:
    """What kentry counts of read and write."""
    argv = ["kentry", "record", SPEC, "--arch", arch.name, "--cpu", cpu, "--emulator", BACKPORTS]
    argv = [sys.executable, "-m", *argv, "--case", "read,write", "--json", "-q"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    cases = json.loads(done.stdout)["cases"]
    return [case["metrics"]["instructions"]["value"] for case in cases]


def main(names: list[str]) -> int:
    """Prints a row for each processor; 1 where two counts differ."""
    worst = 0
    version = emulator_with(host_arch(), BACKPORTS, find_processor(host_arch())).version
    print(f"{SPEC} on QEMU {version}: dd's calls, by QEMU's insn.c")
    print(f"{'processor':24}{'insn.c: count x calls':28}kentry: read, write", flush=True)
    with tempfile.TemporaryDirectory(prefix="kentry-bench-") as name:
        folder = Path(name)
        insn = plugin(DEBIANS_VERSION.sub(r"\1", version), folder)
        for word in names or PROCESSORS:
            arch, cpu = find_arch(word.partition("/")[0]), word.partition("/")[2]
            release = next(one for one in RELEASES if arch.debian not in one.without)
            root = Archive(arch.debian, release)
            files = unpacked(root, "busybox-static", folder / f"busybox-{arch.name}")
            kernel = resolve(SPEC, arch, quiet)
            # Below usr/ from Debian 13 on.
            program = next(path for path in files.glob("**/bin/busybox") if path.is_file())
            theirs = counted(insn, arch, cpu, kernel, program).most_common(2)
            ours = recorded(arch, cpu)
            worst |= sorted(count for count, _ in theirs) != sorted(ours)
            cells = ", ".join(f"{count} x {times}" for count, times in theirs)
            print(f"{word:24}{cells:28}{', '.join(map(str, ours))}", flush=True)
    return worst


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
