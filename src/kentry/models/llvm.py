# SPDX-License-Identifier: GPL-2.0-or-later
"""LLVM's machine code analyser: where it is, the cores it knows, what it makes of instructions."""

import difflib
import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kentry.arch import ARCHES, Arch
from kentry.errors import UserError
from kentry.host import native, sandbox
from kentry.host.cache import kept_file
from kentry.host.packages import missing
from kentry.host.process import run

# The first that can go on after an instruction which its model does not know, and that can be told
# how long a call takes (-skip-unsupported-instructions, -call-latency).
OLDEST = 19
# Without it llvm-mca takes a call to last 100 cycles, because it does not see what is called.  Here
# the callee's instructions follow, so that a call is a predicted branch.
_CALL_LATENCY = 1
# What LLVM's models say of an instruction that they know nothing of (WriteSystem, WriteMicrocoded).
_PLACEHOLDER = 100


@dataclass(frozen=True)
class Analyser:
    """An installed LLVM: llvm-mca and llvm-mc of one version, such as 22.1.8."""

    version: str
    mca: Path
    mc: Path

    def texts(self, arch: Arch, core: str, codes: Sequence[str]) -> dict[str, str]:
        """Disassembles each code (hex, in memory order); "" for one that is no instruction."""
        # A mark stands before and after each: one may be printed in two lines, or in none.
        end = arch.llvm.mark.hex()
        codes = [code for code in codes if code != end]
        blocks = [end, *(block for code in codes for block in (code, end))]
        lines = [f"[{' '.join(f'0x{n:02x}' for n in bytes.fromhex(code))}]" for code in blocks]
        file = kept_file("codes.txt", "\n".join([*lines, ""]))
        argv = [str(self.mc), f"-triple={arch.llvm.triple}", *_options(arch, core), "-disassemble"]
        done = _confined([*argv, str(file)], file)
        # LLVM 19 begins with a directive, .text.
        lines = [line for line in done.stdout.splitlines() if re.match(r"\t[^.]", line)]
        printed = [_plain(line) for line in lines]
        if not printed:
            raise _failed(argv, done.stderr)
        mark, *rest = printed
        decoded: list[list[str]] = [[]]
        for line in rest:
            if line == mark:
                decoded.append([])
            else:
                decoded[-1].append(line)
        if len(decoded) != len(codes) + 1:
            raise _failed(argv, f"{len(decoded) - 1} of {len(codes)} instructions were read")
        return {code: " ".join(texts) for code, texts in zip(codes, decoded, strict=False)}

    def region(self, arch: Arch, core: str, text: Sequence[str], *options: str) -> dict[str, Any]:
        """Runs llvm-mca on a straight line of instructions; UserError for a core without model."""
        file = kept_file("path.s", "\n".join([*text, ""]))
        argv = [str(self.mca), f"-mtriple={arch.llvm.triple}", *_options(arch, core)]
        argv += [
            f"-call-latency={_CALL_LATENCY}",
            "-skip-unsupported-instructions=any",
            "-json",
            *options,
            str(file),
        ]
        done = _confined(argv, file)
        if done.returncode and re.search(r"scheduling information|requires an RV64", done.stderr):
            raise UserError(
                f"LLVM {self.version} has no scheduling model of {core} for {arch.name}.",
                f"Name a core that has one, such as {', '.join(_SOME[arch.name])}.",
            )
        try:
            report = json.loads(done.stdout)
            (region,) = report["CodeRegions"]
        except (ValueError, KeyError):
            # All of them were skipped.
            if "no assembly instructions found" in done.stderr:
                return {}
            raise _failed(argv, done.stderr) from None
        region["Resources"] = report["TargetInfo"]["Resources"]
        return dict(region)

    def known(self, arch: Arch, core: str, texts: Sequence[str]) -> set[str]:
        """Selects the texts that the core's model has a latency of."""
        region = self.region(
            arch, core, texts, "-iterations=1", "-instruction-info", "-resource-pressure=false"
        )
        if not region:
            return set()
        rows = region["InstructionInfoView"]["InstructionList"]
        taken = [_plain(text) for text in region["Instructions"]]
        latency = {taken[row["Instruction"]]: row["Latency"] for row in rows}
        return {text for text in texts if latency.get(text, _PLACEHOLDER) != _PLACEHOLDER}


# Cores that have a model since OLDEST, for an error's remedy.
_SOME = {
    "arm64": ("neoverse-n2", "neoverse-v2", "cortex-a76", "cortex-a55", "apple-a14"),
    "riscv64": ("sifive-u74", "sifive-p670", "sifive-x280"),
    "x86_64": ("znver4", "skylake-avx512", "haswell", "alderlake"),
}


def find_analyser() -> Analyser:
    """Finds the newest LLVM installed; MissingToolError where there is none, or only old ones."""
    mca = native.newest_llvm("llvm-mca", beside="llvm-mc")
    version = native.llvm_version(mca)
    if native.version_numbers(version)[0] < OLDEST:
        raise missing(
            f"llvm-mca is of LLVM {version}, which cannot go on after an instruction that"
            f" its model does not know; LLVM {OLDEST} can.",
            "llvm-mca",
            otherwise=f" (or any LLVM from {OLDEST} on)",
        )
    return Analyser(version, mca, mca.with_name(mca.name.replace("mca", "mc")))


@cache
def _cores(mca: Path, triple: str) -> tuple[str, ...]:
    """Lists the cores that LLVM has a name for, some of them without a model."""
    text = run([str(mca), f"-mtriple={triple}", "-mcpu=help"], check=False).stderr
    table = text.partition("Available CPUs")[2].partition("Available features")[0]
    return tuple(re.findall(r"^\s+(\S+)\s+- ", table, re.MULTILINE))


def check_core(analyser: Analyser, arch: Arch, core: str) -> None:
    """Raises UserError unless LLVM has a scheduling model of the core for this architecture."""
    names = {arch.name: _cores(analyser.mca, arch.llvm.triple) for arch in ARCHES.values()}
    if core in names[arch.name]:
        analyser.region(arch, core, ["nop"], "-iterations=1")
        return
    if others := [name for name, known in names.items() if core in known]:
        raise UserError(
            f"{core} is a core of {others[0]}, and the path is of {arch.name}.",
            f"Name a core of {arch.name}, such as {', '.join(_SOME[arch.name])}.",
        )
    close = difflib.get_close_matches(core, names[arch.name], n=3)
    near = f"Did you mean {' or '.join(close)}?" if close else ""
    raise UserError(
        f"LLVM {analyser.version} knows no core '{core}' of {arch.name}.",
        near or f"It knows {', '.join(_SOME[arch.name])} and more (llvm-mca -mcpu=help).",
    )


def _confined(argv: Sequence[str], file: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program of LLVM on a file: what is in it, a kernel's code, nobody vouches for."""
    readable = [file, Path(argv[0]).resolve().parent]
    confined = sandbox.confined(argv, env={}, readable=readable, limits=sandbox.READS)
    return run(confined, check=False)


def _options(arch: Arch, core: str) -> list[str]:
    features = [f"-mattr={arch.llvm.features}"] if arch.llvm.features else []
    return [f"-mcpu={core}", *features]


def _plain(text: str) -> str:
    """Strips an instruction of LLVM's comment, and leaves one blank between words."""
    return " ".join(re.sub(r"\s(//|# ).*", "", text).split())


def _failed(argv: Sequence[str], why: str) -> UserError:
    program = Path(argv[0]).name
    return UserError(
        f"{program} failed on a recorded path.", "Report it with the command line (-v).", why
    )
