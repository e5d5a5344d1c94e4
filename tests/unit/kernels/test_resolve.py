# SPDX-License-Identifier: GPL-2.0-or-later
"""From what a user names to the kernel, its source, or the commits of a series to build."""

from __future__ import annotations

from pathlib import Path

import pytest

from kentry.arch import ARCHES, Arch, host_arch
from kentry.commands.record import Options
from kentry.errors import PatchError, UserError
from kentry.kernels import build, resolve
from kentry.kernels.config import Request
from kentry.kernels.repository import Revision
from kentry.kernels.resolve import Lineup
from kentry.progress import Update
from tests.unit.kernels import fakes, sources
from tests.unit.kernels.conftest import Said
from tests.unit.kernels.sources import commit, git


@pytest.mark.parametrize("spec", ["debian:6.12", "image:Image", "deb:a.deb", "running"])
def test_only_source_can_be_built_with_something_changed(spec: str) -> None:
    with pytest.raises(UserError) as raised:
        resolve.resolve_source(spec, Said())
    assert spec in raised.value.sentence
    assert "tree:" in raised.value.remedy


def test_a_kernel_with_patches(
    linux: Path, patches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = f"tree:{linux}@v6.12,patches={Path(patches[0]).parent},config=userland"
    built: list[tuple[str, str, Request]] = []

    def kernel(spec: str, revision: Revision, arch: Arch, request: Request, update: Update) -> None:
        built.append((spec, revision.tree, request))

    monkeypatch.setattr(build, "kernel", kernel)
    request = Request("tiny", ("CONFIG_A=y",), "clang")
    resolve.resolve(spec, fakes.ARM64, Said(), request)
    tree = sources.git(linux, "rev-parse", "HEAD^{tree}")
    assert built == [(spec, tree, Request("userland", ("CONFIG_A=y",), "clang"))]


def test_a_patch_that_does_not_fit(linux: Path, patches: list[str]) -> None:
    out = Path(patches[0]).parent
    with pytest.raises(PatchError) as raised:
        resolve.resolve_source(f"tree:{linux},patches={out}", Said())
    assert "Patch 1, 'make first ten'" in raised.value.sentence
    assert "kentry series" in raised.value.remedy
    for value in (str(out / "none"), str(linux), "~nobody-of-this-name"):
        with pytest.raises(UserError, match=value):
            resolve.resolve_source(f"tree:{linux}@v6.12,patches={value}", Said())


@pytest.mark.parametrize("arch", ["arm64", "riscv64"])
def test_the_architecture_is_read_from_the_file(arch: str, tmp_path: Path) -> None:
    image, deb = tmp_path / "Image", tmp_path / "kernel.deb"
    image.write_bytes(fakes.image(ARCHES[arch]))
    fakes.deb(deb, fakes.boot_files(), ARCHES[arch].debian)
    for spec in (f"image:{image}", f"deb:{deb}"):
        assert Options(spec=spec).find_arch().name == arch
        assert Options(spec=spec, arch="x86_64").find_arch().name == "x86_64"
    assert Options(spec="debian:6.12").find_arch() == host_arch()
    with pytest.raises(UserError, match="kernel image"):
        resolve.arch_of(f"image:{deb}")


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    """Three commits on v6.12, each to another function."""
    folder = sources.repository(tmp_path / "linux")
    values: dict[str, int] = {}
    for name in ("first", "second", "third"):
        values[name] = 10
        commit(folder, f"make {name} ten", {"kernel/fork.c": sources.fork_c(**values)})
    return folder


@pytest.fixture
def patches(linux: Path, tmp_path: Path) -> list[str]:
    words = ("--quiet", "--no-numbered", "--output-directory", str(tmp_path / "out"))
    git(linux, "format-patch", *words, "v6.12")
    return sorted(str(path) for path in (tmp_path / "out").iterdir())


def line_up(base: str, *patches: str) -> Lineup:
    return resolve.line_up(base, patches, Said())


def refused(base: str, *patches: str) -> UserError:
    with pytest.raises(UserError) as raised:
        line_up(base, *patches)
    assert raised.value.remedy
    return raised.value


def trees(found: Lineup) -> list[str]:
    assert all(step.revision for step in found.steps)
    return [step.revision.tree for step in found.steps if step.revision]


def history(linux: Path, *words: str) -> list[str]:
    return git(linux, "log", "--reverse", "--format=%T", *words).split()


def test_files_are_applied_one_on_top_of_the_other(linux: Path, patches: list[str]) -> None:
    before = sources.listing(linux / "kernel")
    found = line_up(f"tree:{linux}@v6.12", *patches)
    assert sources.listing(linux / "kernel") == before
    assert trees(found) == history(linux, "v6.12..")
    assert found.base.tree == git(linux, "rev-parse", "v6.12^{tree}")
    assert [step.number for step in found.steps] == [1, 2, 3]
    subjects = [f"make {name} ten" for name in ("first", "second", "third")]
    assert [step.subject for step in found.steps] == subjects
    last = found.steps[2].revision
    assert last
    assert last.origin["patch"] == subjects[2]
    assert last.origin["commit"] == found.base.commit
    assert last.origin["patched_commit"] == last.commit


def test_a_patch_that_does_not_apply(linux: Path, patches: list[str], tmp_path: Path) -> None:
    text = Path(patches[1]).read_text()
    Path(patches[1]).write_text(text.replace("return 2;", "return 22;"))
    found = line_up(f"tree:{linux}@v6.12", *patches)
    first, second, third = found.steps
    assert second.revision is None
    assert second.problem.startswith("does not apply: ")
    assert "kernel/fork.c" in second.problem
    assert first.revision and third.revision
    text = sources.fork_c(first=10, third=10)
    other = sources.repository(tmp_path / "other", {"kernel/fork.c": text})
    assert third.revision.tree == git(other, "rev-parse", "HEAD^{tree}")


@pytest.mark.parametrize("name", ["missing.patch", "../missing.patch", "a/../../missing.patch"])
def test_a_file_that_is_not_there_is_not_taken_for_commits(
    linux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    sentence = refused(f"tree:{linux}@HEAD", name).sentence
    assert name in sentence
    assert "commit" not in sentence


def test_a_file_with_two_dots_is_a_file(linux: Path, patches: list[str], tmp_path: Path) -> None:
    file = Path(patches[0]).rename(tmp_path / "a..b")
    assert len(line_up(f"tree:{linux}@v6.12", str(file)).steps) == 1


@pytest.mark.parametrize("words", ["v6.12..", "v6.12..master"])
def test_commits_as_a_range(linux: Path, words: str) -> None:
    before = sources.listing(linux)
    found = line_up(f"tree:{linux},compiler=clang", words)
    assert sources.listing(linux) == before
    assert trees(found) == history(linux, "v6.12..")
    assert found.base.commit == git(linux, "rev-parse", "v6.12")
    assert (found.base_spec, found.notes) == (f"tree:{linux}@v6.12", ())
    assert found.options == {"compiler": "clang"}
    assert found.steps[0].subject == "make first ten"


def test_a_part_of_a_range_and_where_the_base_says_it_begins(linux: Path) -> None:
    assert trees(line_up(f"tree:{linux}", "v6.12..HEAD~1")) == history(linux, "v6.12..HEAD~1")
    assert trees(line_up(f"tree:{linux}@v6.12", "..HEAD~1")) == history(linux, "v6.12..HEAD~1")


def test_the_folder_here_if_none_is_named(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(linux)
    found = line_up("v6.12..")
    assert (len(found.steps), found.base_spec) == (3, "tree:.@v6.12")


def test_a_fork_begins_where_it_left_and_says_so(linux: Path) -> None:
    git(linux, "checkout", "--quiet", "-b", "topic", "HEAD~2")
    commit(linux, "on the topic", {"init/main.c": "topic\n"})
    found = line_up(f"tree:{linux}", "master..topic")
    assert [step.subject for step in found.steps] == ["on the topic"]
    base = git(linux, "rev-parse", "topic~1")
    assert found.base.commit == base
    assert found.base_spec == f"tree:{linux}@{base[:12]}"
    assert base[:12] in found.notes[0]


def test_what_is_no_range(linux: Path, tmp_path: Path) -> None:
    spec = f"tree:{linux}"
    assert "older" in refused(spec, "HEAD..v6.12").sentence
    assert "v6.12...HEAD" in refused(spec, "v6.12...HEAD").sentence
    assert " ..HEAD " in refused(spec, "..HEAD").sentence
    assert "'v9'" in refused(spec, "v9..HEAD").sentence
    assert "a git tree" in refused("source:6.12", "v6.12..HEAD").sentence
    plain = sources.unpacked(tmp_path / "plain")
    assert "not a git repository" in refused(f"tree:{plain}", "v6.12..HEAD").sentence
    assert "not a git repository" in refused(f"tree:{tmp_path / 'no'}", "v6.12..HEAD").sentence


def test_merges_are_no_series(linux: Path) -> None:
    git(linux, "checkout", "--quiet", "-b", "topic", "v6.12")
    commit(linux, "on the topic", {"init/main.c": "topic\n"})
    git(linux, "merge", "--quiet", "--message", "merged", "master")
    error = refused(f"tree:{linux}", "v6.12..topic")
    assert "merges" in error.sentence
    assert "rebase" in error.remedy
    # Commits with nothing in common.
    git(linux, "checkout", "--quiet", "--orphan", "other")
    commit(linux, "another beginning", {})
    assert "in common" in refused(f"tree:{linux}", "master..other").sentence
