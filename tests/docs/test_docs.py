# SPDX-License-Identifier: GPL-2.0-or-later
"""The documentation says what is there, and its commands print what it shows.

A page's output is of the kernels that Debian had when it was made.  While the archive has
the same ones, and for programs the same packages, the output must be the same to the byte: counts
are exact.  When Debian has published newer ones, the commands must still work, and the page wants
`make docs`.
"""

import importlib.util
import json
import os
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image, ImageStat

from kentry.cli import build_parser
from kentry.commands.options import take_anywhere
from kentry.kernels.spec import KINDS
from kentry.results.workload import read_workload
from tests import ROOT

SLOW = "KENTRY_TEST_SLOW"


def load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


docs = load(ROOT / "scripts" / "docs.py")
pictures = load(ROOT / "scripts" / "pictures.py")
programs = load(ROOT / "scripts" / "programs.py")
GALLERY = ROOT / "docs" / "gallery.md"
CASE_PAGES = sorted((ROOT / "docs" / "cases").glob("[!R]*.md"))
EXAMPLES = [command for page in docs.pages() for command in docs.commands(page)]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def kernels_in(output: str) -> set[str]:
    named = re.findall(r"(?:Linux|LLVM) (\d[\w.+-]*)", output)
    return {*named, *re.findall(r"\d[\w.+]*-[\w.+-]*(?:amd64|arm64|riscv64)\b", output)}


@pytest.mark.qemu
@pytest.mark.parametrize("command", EXAMPLES, ids=lambda c: f"{c.page.relative_to(ROOT)}:{c.line}")
def test_the_commands_print_what_the_page_shows(command: Any) -> None:
    if command.slow and os.environ.get(SLOW) != "1":
        pytest.skip(f"builds kernels for many minutes; make docs runs it, and so does {SLOW}=1")
    if not docs.has_document(command):
        pytest.skip(f"{docs.SEEDS} names no folder with {command.document}")
    done = docs.run(command)
    assert done.returncode == 0, done.stderr
    page_kernels = kernels_in(command.page.read_text(encoding="utf-8"))
    if done.stdout == command.output:
        return
    if not kernels_in(done.stdout) <= page_kernels:
        print(f"{command.page.name} was made on {page_kernels}; make docs renews it")
    elif docs.runs_programs(command.page) and docs.user_space() != json.loads(
        docs.USER_SPACE.read_text()
    ):
        print(f"{command.page.name} was made with other packages; make docs renews it")
    else:
        assert done.stdout == command.output, "make docs writes the page anew"


_REPLY = re.compile(r"with its numbers from the tables of this page:\n\n```\n(.*?)\n```", re.DOTALL)
# A number of one or two digits may be a word of its sentence, or rounded.
_NUMBER = re.compile(r"\d+\.\d+|\d{3,}")


def test_a_reply_to_post_has_the_numbers_of_the_runs_on_its_page() -> None:
    replies = 0
    for page in docs.pages():
        known = set(_NUMBER.findall("".join(one.output for one in docs.commands(page))))
        for reply in _REPLY.findall(page.read_text(encoding="utf-8")):
            replies += 1
            assert set(_NUMBER.findall(reply)) <= known
    assert replies == 1


@pytest.mark.parametrize("page", docs.reference(), ids=lambda page: page.name)
def test_the_generated_reference_is_current(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == docs.reference()[page], "make docs renews it"


def test_a_row_of_a_program_has_the_sums_of_its_run() -> None:
    workload = read_workload(ROOT / "tests" / "golden" / "workload.json")
    row = programs.summary(workload)
    calls = [one for one in workload.rows if one.what == "syscall"]
    assert row["instructions"] == 1130413
    assert row["in_kernel"] == 1130413 - 152239 - 72518  # without user code and other tasks
    assert row["around"] == sum(one.instructions - one.handler for one in calls)
    assert row["syscalls"] == sum(one.calls for one in calls)
    assert row["entries"] == row["syscalls"] + 35 + 15 + 1 + 1  # faults, a new task
    assert row["medians"][:2] == [["exit_group", 1, 235692], ["page fault", 35, 3896]]
    # It ran alone on a processor with SVE, and used none.
    assert row["first_uses"] == 0
    assert row["vector"]["fpsimd_flush_thread"] == 64
    assert all("fpsimd" in name or "sve" in name for name in row["vector"])


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("arm64", "do_sve_acc"),
        ("arm64", "el0_sve_acc"),
        ("arm64", "sve_save_state"),
        ("riscv64", "riscv_v_first_use_handler"),
        ("riscv64", "__fstate_save"),
        ("x86_64", "save_fpregs_to_fpstate"),
        ("x86_64", "switch_fpu_return"),
    ],
)
def test_functions_of_vector_state_are_told_from_others(arch: str, name: str) -> None:
    assert programs.VECTOR[arch].fullmatch(name)
    for other in ("fput", "__fput", "resolve_name", "el0_svc", "smem_read"):
        assert not programs.VECTOR[arch].fullmatch(other)


def test_the_rows_of_programs_are_of_the_cells_of_the_page() -> None:
    table = json.loads((docs.ROOT / "docs" / "reference" / "programs.json").read_text())
    cells = {f"{arch} {spec} {name}" for arch, spec in table["cells"] for name in table["programs"]}
    assert table["rows"].keys() <= cells
    for row in table["rows"].values():
        assert row["around"] + sum(row["vector"].values()) <= row["in_kernel"] < row["instructions"]


@pytest.mark.parametrize("page", docs.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_documented_command_line_has_options_that_exist(page: Path) -> None:
    options = {
        one.prog: set(re.findall(r"--[a-z-]+", one.format_help()))
        for one in docs.commands_of_kentry()
    }
    for line in page.read_text(encoding="utf-8").splitlines():
        for part in re.split(r"[|;]", line):
            match = re.search(r"\bkentry (?:vector )?\w+", part)
            if match and match[0] in options:
                words = part[match.end() :].partition(" -- ")[0]
                used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", words))
                assert used <= options[match[0]], line


def test_the_glossary_has_at_most_fifty_words() -> None:
    rows = re.findall(r"^\| (?!word)[^|-]+ \|", text_of("docs/glossary.md"), re.MULTILINE)
    assert len(rows) <= 50
    assert len(set(rows)) == len(rows)


def test_the_readme_has_at_most_a_hundred_lines() -> None:
    assert len(text_of("README.md").splitlines()) <= 100


def test_every_kind_of_spec_is_on_the_page() -> None:
    page = text_of("docs/reference/specs.md")
    for kind in KINDS.values():
        assert f"`{kind.name}" in page


@pytest.mark.parametrize("page", docs.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere_and_pages_are_ascii_and_name_no_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r'(?:src|srcset)="([^"#]+)', text)
    for target in [*re.findall(r"\]\(([^)#:]+)\)", text), *shown]:
        assert (page.parent / target).exists(), target
    assert text.isascii()
    assert "/root/" not in text and "/tmp/" not in text


@pytest.mark.parametrize("picture", pictures.pictures_of(GALLERY), ids=lambda file: file.name)
def test_a_picture_of_the_gallery_is_a_small_png_of_what_a_command_wrote(picture: Path) -> None:
    pair = [picture, picture.with_stem(f"{picture.stem}-dark")]
    brightness = []
    for file in pair:
        with Image.open(file) as image:
            assert image.format == "PNG" and image.width == pictures.WIDE
            assert 300 <= image.height <= pictures.HIGH
            brightness.append(ImageStat.Stat(image.convert("L")).mean[0])
        assert 5_000 < file.stat().st_size < 150_000
    light, dark = brightness
    assert light > 200 and dark < 60
    names = {f"{picture.stem}.html", f"{picture.stem}.ansi"}
    assert [one for one in docs.commands(GALLERY) if names & set(one.text.split())]


def test_the_gallery_shows_every_picture_that_is_there() -> None:
    light = set(pictures.pictures_of(GALLERY))
    dark = {file.with_stem(f"{file.stem}-dark") for file in light}
    assert light | dark == set((ROOT / "docs" / "gallery").iterdir())


@pytest.mark.parametrize("command", docs.commands(GALLERY), ids=lambda one: f"line {one.line}")
def test_a_command_of_the_gallery_is_valid(command: Any) -> None:
    words = shlex.split(command.text.partition(" > ")[0])
    assert words[0] == "kentry"
    # It exits where the command line is wrong.
    anywhere, others = take_anywhere(words[1:])
    build_parser().parse_args(others, anywhere)


@pytest.mark.parametrize("page", CASE_PAGES, ids=lambda page: page.stem)
def test_a_case_page_is_complete(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = ("What was asked", "Published and counted", "What needs hardware")
    for heading in (*headings, "The report page", "What remains open"):
        assert f"\n## {heading}\n" in text
    reports = [one for one in docs.commands(page) if f"{page.stem}.html" in one.text.split()]
    assert len(reports) == 1


def test_what_the_commands_of_a_page_wrote_replaces_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "REPORTS", tmp_path)
    # Not the folder of the tests that run the page's commands.
    monkeypatch.setattr(docs, "_folders", {})
    (docs.folder_of(GALLERY) / "comparison.html").write_text("<title>now</title>")
    older = tmp_path / "docs" / "gallery" / "older.html"
    older.parent.mkdir(parents=True)
    older.write_text("of a command that the page no longer has")
    docs.publish(GALLERY)
    assert [one.name for one in older.parent.iterdir()] == ["comparison.html"]
    docs._folders[GALLERY].cleanup()
