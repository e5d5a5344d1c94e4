# SPDX-License-Identifier: GPL-2.0-or-later
"""The workflow and the script of examples/gate do what they say, on a tree that compiles nothing.

kentry itself runs: it builds the tree with make and tuxmake, and reads a saved run where it would
boot.  How many instructions the saved run has stands in a file of each commit.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml  # type: ignore[import-untyped]

from kentry.host import sandbox
from kentry.study.budgets import read_budgets
from tests import ROOT
from tests.unit.kernels import fakes, sources

GATE = ROOT / "examples" / "gate"
WORKFLOW = GATE / "kernel-entry.yml"
PREBUILT: Mapping[str, str | bytes] = {
    "prebuilt/Image": fakes.image(),
    "prebuilt/vmlinux": fakes.vmlinux(),
}
CONSOLE = f"""\
kentry-probe start arm64
kentry-probe release {fakes.RELEASE}
kentry-probe end cases=1
"""
BUDGETS = "[arm64]\ngetppid = 5\n"

pytestmark = pytest.mark.slow


def trace(instructions: int) -> str:
    """What the plugin writes where getppid executes so many instructions."""
    lines = ["kentry-trace 1", "qemu aarch64 api=1", "message case getppid count 1"]
    lines += [f"window 1000 {instructions} 0 1 0 0 0 -", "message case getppid path 1"]
    for place in range(instructions):
        lines.append(f"insn {place} {fakes.BASE + 0x40 + 4 * place:x} 00000000 nop")
    lines += [f"path 0 {instructions} 0+{instructions}", f"window 128 {instructions} 0 1 0 0 0 0"]
    lines += ["message end 1", "spoilt 0", "end 1128"]
    return "\n".join(lines) + "\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit; `kentry` on the PATH; budgets that the commit is within."""
    sources.pretend_tools(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))
    if not sandbox.works():
        monkeypatch.setenv(sandbox.ALLOW_VARIABLE, "1")
    for count in (4, 5, 7):
        saved = tmp_path / "saved" / str(count)
        saved.mkdir(parents=True)
        (saved / "console").write_text(CONSOLE)
        (saved / "trace").write_text(trace(count))
    command = tmp_path / "bin" / "kentry"
    folder = tmp_path / "linux"
    command.write_text(
        "#!/bin/sh\n"
        "for word; do case $word in tree:*) at=${word#tree:}; esac; done\n"
        f'export KENTRY_FAKE="{tmp_path}/saved/$(git -C "${{at%@HEAD}}" show HEAD:count)"\n'
        f'exec {sys.executable} -m kentry "$@"\n'
    )
    command.chmod(0o755)
    for name in ("NAME", "EMAIL"):
        for role in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{role}_{name}", "test@example.org")
    return sources.repository(folder, {**PREBUILT, "count": "4"})


def run(argv: list[str], cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **more}
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)


# --- the workflow -----------------------------------------------------------------


def job() -> Any:
    return yaml.safe_load(WORKFLOW.read_text())["jobs"]["check"]


def steps(arch: str) -> list[str]:
    """What the steps run that call kentry."""
    words = [step["run"] for step in job()["steps"] if "kentry check" in step.get("run", "")]
    filled = [re.sub(r"\$\{\{ *matrix\.arch *\}\}", arch, word) for word in words]
    assert not [word for word in filled if "${{" in word]
    return filled


def test_the_workflow_is_one_that_a_runner_reads() -> None:
    # YAML 1.1, which PyYAML reads, takes "on" for true.
    document = yaml.safe_load(WORKFLOW.read_text())
    assert set(document) == {"name", True, "permissions", "jobs"}
    assert document["permissions"] == {"contents": "read"}
    for step in job()["steps"]:
        assert ("run" in step) != ("uses" in step)
        assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "a/b@v1"))
    assert set(job()["strategy"]["matrix"]["arch"]) == {
        one.table for one in read_budgets(GATE / "kernel-entry.toml").all
    }
    assert job()["env"][sandbox.ALLOW_VARIABLE] == "1"


def test_the_workflow_installs_what_is_there() -> None:
    text = "\n".join(step.get("run", "") for step in job()["steps"])
    assert "make -C .kentry setup" in text
    assert re.search(r"^setup:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert ".kentry/.venv/bin" in text


@pytest.mark.parametrize(
    ("count", "code", "annotation"), [("5", 0, "::notice"), ("7", 1, "::error file=ci/")]
)
def test_the_steps_of_the_workflow_run(
    tree: Path, tmp_path: Path, count: str, code: int, annotation: str
) -> None:
    sources.commit(tree, "a change", {"count": count, "ci/kernel-entry.toml": BUDGETS})
    summary = tmp_path / "summary"
    done = [
        run(["bash", "-e", "-o", "pipefail", "-c", step], tree, GITHUB_STEP_SUMMARY=str(summary))
        for step in steps("arm64")
    ]
    assert [one.returncode for one in done] == [code, 0, 0], done[0].stderr
    assert done[0].stdout.startswith(annotation)
    assert "over by 2" in done[0].stdout if code else "holds" in done[0].stdout
    assert f"{'over by 2' if code else 'within'}\n" in summary.read_text()
    suite = ElementTree.parse(tree / "kernel-entry-arm64.xml").getroot()[0]
    assert suite.get("failures") == str(code)
    uploaded = job()["steps"][-1]["with"]["path"]
    assert uploaded.replace("${{ matrix.arch }}", "arm64") == "kernel-entry-arm64.xml"


@pytest.mark.parametrize("page", ["docs/howto/gate-a-kernel-tree.md", "docs/reference/formats.md"])
def test_the_budgets_of_a_page_are_some(page: str, tmp_path: Path) -> None:
    [text] = re.findall(r"```toml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    file = tmp_path / "budgets.toml"
    file.write_text(text)
    assert {one.table for one in read_budgets(file).all} == {"arm64", "all"}
    assert read_budgets(file).baselines["arm64"].name == "arm64-6.12.json"


# --- the script --------------------------------------------------------------------


@pytest.fixture
def budgets(tmp_path: Path) -> str:
    file = tmp_path / "budgets.toml"
    file.write_text(BUDGETS)
    return str(file)


def test_the_script_ends_with_0_and_writes_every_format(
    tree: Path, tmp_path: Path, budgets: str
) -> None:
    done = run([str(GATE / "check.sh"), "linux", budgets, "out", "arm64"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The budget holds." in done.stdout
    out = tmp_path / "out"
    assert sorted(file.name for file in out.iterdir()) == [
        f"arm64.{end}" for end in ("json", "ktap", "txt", "xml")
    ]
    assert json.loads((out / "arm64.json").read_text())["verdict"] == "within"
    assert (out / "arm64.ktap").read_text().startswith("KTAP version 1\n1..1\n")


def test_the_script_names_the_commit_and_leaves_the_checkout_alone(
    tree: Path, tmp_path: Path, budgets: str
) -> None:
    broken = "#error of all things\n"
    fork = (sources.FAKE / "kernel/fork.c").read_text()
    history: list[Mapping[str, str | bytes]] = [
        {"a": "1"},
        {"kernel/fork.c": broken},
        {"kernel/fork.c": fork},
        {"count": "7"},
        {"kernel/fork.c": broken + fork},
        {"kernel/fork.c": fork, "b": "1"},
    ]
    commits = [sources.commit(tree, f"commit {n}", one) for n, one in enumerate(history)]
    before = sources.git(tree, "status", "--porcelain", "--branch")
    words = [str(GATE / "check.sh"), "linux", budgets, "out", "arm64"]
    done = run(words, tmp_path, GOOD="v6.12")
    assert done.returncode == 1, done.stderr
    said = (tmp_path / "out/arm64.bisect").read_text()
    assert f"{commits[3]} is the first bad commit" in said
    assert f"{commits[3]} is the first bad commit" in done.stdout
    assert sources.git(tree, "status", "--porcelain", "--branch") == before
    assert sources.git(tree, "rev-parse", "HEAD") == commits[-1]
    assert len(sources.git(tree, "worktree", "list").splitlines()) == 1


def test_the_script_says_what_it_could_not_check(tree: Path, tmp_path: Path, budgets: str) -> None:
    words = [str(GATE / "check.sh"), "linux", budgets, "out"]
    done = run([*words, "riscv64", "arm64"], tmp_path)
    assert done.returncode == 2
    assert "has no budget for riscv64" in done.stderr
    assert (tmp_path / "out/arm64.json").exists()
    Path(budgets).write_text("[arm64]\ngetppid = 4\nread = 1\n")
    assert run([*words, "arm64"], tmp_path).returncode == 3
    assert run([*words], tmp_path).returncode == 2


def test_git_bisect_as_the_page_has_it(tree: Path, tmp_path: Path) -> None:
    """In the checkout itself, which has the budgets only since a while ago."""
    page = (ROOT / "docs/howto/gate-a-kernel-tree.md").read_text()
    block = re.findall(r"^    (.*)$", page.partition("## git bisect")[2].partition("##")[0], re.M)
    assert [line.split()[0] for line in block] == ["cp", "git", "git"]
    history: list[Mapping[str, str | bytes]] = [
        {"kernel/fork.c": "#error\n", "count": "5"},
        {"kernel/fork.c": "int x;\n", "count": "7", "ci/kernel-entry.toml": BUDGETS},
        {"a": "1"},
    ]
    commits = [sources.commit(tree, f"commit {n}", one) for n, one in enumerate(history)]
    done = run(["bash", "-e", "-c", "\n".join(block)], tree)
    # The commit before does not build, so it may be either of the two.
    assert done.returncode == 2, done.stdout + done.stderr
    assert "only 'skip'ped commits left" in done.stdout
    assert set(commits[:2]) <= set(done.stdout.split())
    sources.git(tree, "bisect", "reset")
    sources.git(tree, "commit", "--quiet", "--amend", "--message", "again")
    sources.git(tree, "bisect", "start", "HEAD", "v6.12")
    sources.git(tree, "bisect", "good", commits[0])
    done = run(["bash", "-e", "-c", block[-1]], tree)
    assert f"{commits[1]} is the first bad commit" in done.stdout, done.stdout + done.stderr
