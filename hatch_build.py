# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the C parts before the Python ones are packed; the rest is in pyproject.toml.

The plugins are for the QEMU of one machine: this one, or the one that KENTRY_MACHINE names.  The
probes, runners and floors are for every architecture.  What does not build fails the build; only
an editable installation does without those of a compiler that is not installed: kentry says so
when they are needed.
"""

import json
import os
import platform
import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
EDITABLE = ROOT / "src" / "kentry" / "native"
# In a source distribution, which has no history: the commit and its time.
COMMIT = EDITABLE / "commit"

# Architecture: (its compiler's prefix, the machine on which plain gcc is that compiler).
COMPILERS = {
    "arm64": ("aarch64-linux-gnu-", "aarch64"),
    "riscv64": ("riscv64-linux-gnu-", "riscv64"),
    "x86_64": ("x86_64-linux-gnu-", "x86_64"),
}


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        commit = commit_line()
        os.environ.setdefault("SOURCE_DATE_EPOCH", commit.split()[1])
        machine = os.environ.get("KENTRY_MACHINE", platform.machine())
        programs, plugins = ROOT / "build" / "native", ROOT / "build" / f"plugins-{machine}"
        if version == "editable":
            programs = plugins = EDITABLE
        programs.mkdir(parents=True, exist_ok=True)
        (programs / "commit").write_text(f"{commit}\n")
        if self.target_name == "sdist":
            build_data["force_include"][str(programs / "commit")] = str(COMMIT.relative_to(ROOT))
            return
        build(programs, plugins, machine, must=version != "editable")
        if version != "editable":
            native = sorted([*programs.iterdir(), *plugins.iterdir()])
            sources = [file for file in sorted((ROOT / "guest").rglob("*")) if is_source(file)]
            included = {file: f"kentry/native/{file.name}" for file in native}
            included |= {file: f"kentry/{file.relative_to(ROOT)}" for file in sources}
            build_data["force_include"] |= {str(file): place for file, place in included.items()}
            build_data["sbom_files"] = [bill_of_materials(native, self.metadata, machine)]
            tag = f"py3-none-{platform_tag(plugins, machine)}"
            build_data |= {"pure_python": False, "tag": tag}


def commit_line() -> str:
    """Returns the commit, whether the tree differs from it, and the commit's time."""
    if not (ROOT / ".git").exists():
        return COMMIT.read_text().strip() if COMMIT.exists() else "unknown 315532800"

    def git(*words: str) -> str:
        argv = ["git", "-C", str(ROOT), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    name = git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    return f"{name} {git('log', '-1', '--format=%ct')}"


def is_source(file: Path) -> bool:
    return file.is_file() and "build" not in file.relative_to(ROOT).parts


def build(programs: Path, plugins: Path, machine: str, *, must: bool) -> None:
    def make(folder: str, out: Path, *words: str) -> None:
        argv = ["make", "-s", "-C", str(ROOT / folder), f"OUT={out}", *words]
        subprocess.run(argv, check=True)

    own = machine == platform.machine()
    make("plugin", plugins, *([] if own else [f"CC={machine}-linux-gnu-gcc"]))
    for arch, (prefix, of) in COMPILERS.items():
        here = shutil.which(f"{prefix}gcc") is not None
        if here or must or platform.machine() == of:
            plain = platform.machine() == of and not here
            make("guest", programs, f"ARCHES={arch}", *([f"CROSS_{arch}="] if plain else []))


def platform_tag(plugins: Path, machine: str) -> str:
    """Returns the tag of the oldest glibc that has what the plugins call; glib is QEMU's own."""
    versions = {
        (int(major), int(minor))
        for plugin in plugins.glob("*.so")
        for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", plugin.read_bytes())
    }
    if not versions:
        return f"linux_{machine}"
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{machine}"


def bill_of_materials(native: list[Path], metadata: Any, machine: str) -> str:
    """Writes what the wheel has and what it is installed with as CycloneDX; returns its place."""
    name, version = metadata.name, metadata.version
    parts = [
        {
            "type": "file",
            "name": f"kentry/native/{file.name}",
            "hashes": [{"alg": "SHA-256", "content": sha256(file.read_bytes()).hexdigest()}],
        }
        for file in native
    ]
    needed, _, _ = (ROOT / "requirements.lock").read_text().partition("# What builds kentry:")
    locked = re.findall(r"^([\w.-]+)==([\w.]+)", needed, re.MULTILINE)
    libraries = [
        {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
        for name, version in locked
    ]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, commit_line() + machine)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": name,
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "licenses": [{"license": {"id": "GPL-2.0-or-later"}}],
            }
        },
        "components": parts + libraries,
    }
    file = ROOT / "build" / f"{name}-{machine}.cdx.json"
    file.write_text(json.dumps(document, indent=1) + "\n")
    return str(file.relative_to(ROOT))
