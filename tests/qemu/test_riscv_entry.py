# SPDX-License-Identifier: GPL-2.0-or-later
"""What a reader is shown of riscv's entry in 6.1 and 6.12: the paths side by side, and the page.

Both kernels are built.  docs/cases/riscv-syscall-regression.md is about the same two.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from kentry.arch import find_arch
from kentry.cli import main
from kentry.errors import FetchError, MissingToolError
from kentry.kernels import build
from kentry.kernels.config import Request
from kentry.kernels.resolve import resolve_source
from tests.browser import browser as browser
from tests.browser import opened

from .conftest import skip, timed

pytestmark = pytest.mark.qemu

OLD, NEW = "source:6.1", "source:6.12"
ARCH = find_arch("riscv64")
# What 6.1 keeps in functions of their own and 6.12 keeps in others, as entry.S of both says.
RENAMED = {
    "handle_exception": {"_save_context", "handle_exception"},
    "ret_from_exception": {"restore_all", "resume_userspace", "ret_from_exception"},
    "__riscv_sys_getppid": {"sys_getppid"},
}
# The generic entry of kernel/entry/ and of arch/riscv/kernel/traps.c; 6.1 has neither.
GENERIC_ENTRY = {"do_trap_ecall_u", "syscall_exit_to_user_mode"}
# struct pt_regs keeps xN at byte 8 * N; x2 and x4 are the stack and the task, kept otherwise.
SAVED = {8 * number for number in range(1, 32) if number not in (2, 4)}


def silent(fraction: float | None, now: str) -> None:
    """Progress that is not printed."""


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Built, or found in the cache; or the test is skipped, where there is no source."""
    for spec in (OLD, NEW):
        try:
            revision = resolve_source(spec, silent)
            with timed(f"{spec} for {ARCH.name}: built or found"):
                build.built(build.plan(revision, ARCH, Request(), silent), silent)
        except (FetchError, MissingToolError) as err:
            skip(f"no kernels to compare: {err}")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    argv = [words[0], OLD, NEW, "--arch", ARCH.name, "-q", "--json", *words[1:]]
    with timed(f"kentry {' '.join(argv)}"):
        assert main(argv) == 0
        return json.loads(capsys.readouterr().out)


def test_the_paths_are_aligned_across_the_renamed_functions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [case] = printed(capsys, "annotate", "--case", "getppid")["cases"]
    rows = case["rows"]
    counts = Counter[str]()
    for row in rows:
        counts[row["change"]] += row["times"]
    assert counts["added"] - counts["removed"] == case["delta"] == case["new"] - case["old"]
    # 58 with the kernels that Debian had when this was written.
    assert 50 < case["delta"] < 70
    renamed = {
        new: {old for old, _ in one["old"]} for one in case["renamed"] for new, _ in one["new"]
    }
    assert renamed == RENAMED
    same = [row for row in rows if row["change"] == "same"]
    for mnemonic, old, new in (
        ("sd", "_save_context", "handle_exception"),
        ("ld", "restore_all", "ret_from_exception"),
    ):
        texts = [
            row["new"]["text"]
            for row in same
            if (row["old"]["function"], row["new"]["function"]) == (old, new)
        ]
        found = [re.fullmatch(rf"{mnemonic} \w+,(\d+)\(sp\)", text) for text in texts]
        assert {int(one[1]) for one in found if one} >= SAVED
    handler = [row for row in rows if "__riscv_sys_getppid" in row["function"]]
    assert {row["change"] for row in handler} == {"same"}
    added = Counter(row["function"] for row in rows if row["change"] == "added")
    assert added.keys() >= GENERIC_ENTRY
    assert not [row for row in rows if row["function"] in GENERIC_ENTRY and row["change"] == "same"]


def test_a_page_of_two_kernels_adds_up_to_the_json(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.html"
    document = printed(capsys, "diff")
    sides = [tmp_path / f"{number}.json" for number in range(2)]
    for spec, side in zip((OLD, NEW), sides, strict=True):
        assert main(["record", spec, "--arch", ARCH.name, "-q", "-o", str(side)]) == 0
    assert main(["report", *map(str, sides), "-o", str(file)]) == 0
    cases = {case["name"]: case for case in document["cases"]}
    assert len(cases) > 10
    page, complaints = opened(browser, file)
    tables = page.evaluate(
        """Object.fromEntries([...document.querySelectorAll("table.functions")].map((table) => [
             table.closest("details").querySelector("summary").textContent.split(" (")[0],
             [...table.querySelectorAll("tbody tr:not(.same)")].map((row) =>
               [row.querySelector("th").textContent,
                Number(row.querySelector("td.delta").textContent)])]))"""
    )
    sums = page.evaluate(
        "[...document.querySelectorAll('td.sum')].map((one) => Number(one.textContent))"
    )
    frames = page.evaluate(
        """[...document.querySelectorAll("svg.icicle")].map(
             (one) => one.querySelectorAll("svg.frame:not(.part)").length)"""
    )
    differences = page.evaluate(
        """[...document.querySelectorAll("table.paths")].map(
             (one) => one.closest("details").textContent.slice(0, 500))"""
    )
    page.context.close()
    assert complaints == []
    changed = {name: case for name, case in cases.items() if case["delta"]}
    assert len(changed) > 10
    assert tables.keys() == changed.keys()
    for name, case in changed.items():
        rows = [[row["name"], row["delta"]] for row in case["functions"] if row["delta"]]
        assert tables[name] == rows
        assert sum(delta for _, delta in tables[name]) == case["delta"]
    assert sums == [case["delta"] for case in changed.values()]
    # Each has both paths as charts, and side by side.
    least = [
        sum(row[side] > 0 for row in case["functions"])
        for case in changed.values()
        for side in ("old", "new")
    ]
    assert [drawn >= some for drawn, some in zip(frames, least, strict=True)] == [True] * len(least)
    # Of a case that depends on the context, the paths are those of one; the page says so.
    for case, difference in zip(changed.values(), differences, strict=True):
        counts = {word: int(n) for n, word in re.findall(r"(\d+) (added|removed)", difference)}
        of_paths = counts.get("added", 0) - counts.get("removed", 0)
        assert of_paths == case["delta"] or "depends on the context" in difference
        assert of_paths == case["delta"] or len(case["contexts"]["new"]) > 1
