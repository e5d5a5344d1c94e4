# SPDX-License-Identifier: GPL-2.0-or-later
"""A vendor's tree: a commit changes its own defconfig, after fifty that do not build."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.kernels import build
from kentry.kernels.config import Request
from kentry.kernels.debian import revision
from kentry.kernels.spec import parse
from tests.histories import git, make

from .conftest import or_skip, timed
from .test_record import kentry

pytestmark = pytest.mark.qemu

ARCH = ARCHES["riscv64"]
CONFIG = "arch/riscv/configs/vendor_defconfig"
BROKEN = 50
# What saves and restores vector registers is on the path of each entry.
OPTION = "CONFIG_RISCV_ISA_V"


def vendor_tree(folder: Path) -> list[str]:
    """A branch on Debian's source; its commits in order, the first with the defconfig."""
    or_skip("no tools", build.check_tools, ARCH)
    or_skip("no source", make, 1, folder)
    source = revision(parse("source:6.12"), lambda fraction, now: None)
    planned = build.plan(source, ARCH, Request(), lambda fraction, now: None)
    with timed(f"source:6.12 for {ARCH.name}: built or found"):
        built = build.built(planned, lambda fraction, now: None)
    whole = (built / "config").read_text()
    assert f"{OPTION}=y" in whole
    files = [(CONFIG, whole, "riscv: Add our board's defconfig")]
    files += [
        ("kernel/vendor.c", f"#error {at}\n", f"vendor: part {at} of the driver")
        for at in range(BROKEN)
    ]
    files += [
        ("kernel/vendor.c", "int vendor;\n", "vendor: the driver builds"),
        (CONFIG, whole.replace(f"{OPTION}=y", f"# {OPTION} is not set"), "riscv: No vectors"),
        ("kernel/vendor.c", "int vendor = 1;\n", "vendor: switch the driver on"),
    ]
    makefile = git(folder, "show", "master:kernel/Makefile") + "\nobj-y += vendor.o\n"
    stream = []
    for at, (name, text, subject) in enumerate(files, start=1):
        more = [("kernel/Makefile", makefile)] if at == 2 else []
        stream.append(
            f"commit refs/heads/vendor\nmark :{at}\ncommitter V <v@v> {1760000000 + at} +0000"
        )
        stream.append(f"data {len(subject)}\n{subject}")
        stream += ["from refs/heads/master"] if at == 1 else []
        for path, content in [(name, text), *more]:
            stream.append(f"M 100644 inline {path}\ndata {len(content.encode())}\n{content}")
    git(folder, "fast-import", "--quiet", feed="\n".join([*stream, ""]).encode())
    return git(folder, "rev-list", "--reverse", "master..vendor").split()


def test_the_commit_that_changed_the_defconfig_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "linux"
    commits = vendor_tree(folder)
    words = ["--good", commits[0], "--bad", commits[-1], "--tree", str(folder)]
    with timed(f"kentry bisect of {len(commits)} commits by their own defconfig"):
        done = kentry(
            "bisect", *words, "--arch", ARCH.name, "--config", CONFIG, "--no-verify", "--json"
        )
    document = json.loads(done.stdout)
    assert [one["commit"] for one in document["culprits"]] == [commits[-2]]
    assert document["culprit"]["subject"] == "riscv: No vectors"
    assert document["origin"]["config"] == CONFIG
    # From the middle of the run to either end by halves.
    assert sum(one["status"] == "build-failed" for one in document["steps"]) <= 12
