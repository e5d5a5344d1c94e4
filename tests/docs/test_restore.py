# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/restore.py gives back what an archive's page takes away; git's diff says what it was."""

import re
import subprocess
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.kernels.patches import read_patches
from tests import ROOT
from tests.docs.test_docs import load
from tests.unit.kernels import sources

restore = load(ROOT / "scripts" / "restore.py")

BEFORE = """\
/* A file. */

int first(int a)
{
	int b = a;

	if (b)
		b = other(b,
			a);

	return b;
}

int second(int a)
{
	if (a)
		return a;

	return first(a);
}

#endif /* FILE */
"""


def damaged(before: str, after: str, folder: Path) -> tuple[str, str]:
    """git's diff of a file, and the page of an archive that has it."""
    for name, text in (("a", before), ("b", after)):
        (folder / name / "kernel").mkdir(parents=True)
        (folder / name / "kernel" / "fork.c").write_text(text)
    words = ["git", "diff", "--no-index", "--no-prefix", "a", "b"]
    diff = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False).stdout
    lines = (" ".join(line.split()) for line in diff.splitlines())
    marked = (
        mark[0] + line[1:] if (mark := re.match("[+-]", was)) and line[:1] != mark[0] else line
        for was, line in zip(diff.splitlines(), lines, strict=True)
    )
    text = "\n".join(line for line in marked if line)
    page = (
        "* [PATCH v8 0/1] A series\nFrom: A B @ 2026-03-20 15:44 UTC\nText.\n"
        f"* [PATCH v8 1/1] one change\nFrom: A B @ 2026-03-20 15:44 UTC\n---\n{text}\n--\n2.47.3\n"
        "* Re: [PATCH v8 0/1] A series\nFrom: C D @ 2026-05-12 14:10 UTC\n"
    )
    return diff, page


def hunks(diff: str) -> list[str]:
    """The lines of all hunks, with those that are added without their indentation."""
    lines = re.sub(r"(?m)^(@@.*@@).*$", r"\1", diff[diff.index("@@") :]).splitlines()
    return [" ".join(line.split()) if line[:1] == "+" else line for line in lines]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\tif (b)\n", "\tif (b > 1)\n"),
        ("\n\treturn b;\n", "\treturn b;\n"),
        ("int second", "static int more;\n\nint second"),
        ("\n#endif", "\n\tint third;\n\n#endif"),
        ("\tif (a)\n\t\treturn a;\n\n", ""),
        ("/* A file. */\n", "/* A file. */\n#include <x.h>\n"),
        ("#endif /* FILE */\n", "#endif /* FILE */\n\nint last;\n"),
        ("\tint b = a;\n", "\tint b = a;\n\tint c;\n\n\tc = b;\n"),
    ],
)
def test_a_damaged_diff_is_what_git_wrote(old: str, new: str, tmp_path: Path) -> None:
    after = BEFORE.replace(old, new, 1)
    diff, page = damaged(BEFORE, after, tmp_path)
    files = {"kernel/fork.c": BEFORE.splitlines()}
    [message] = restore.messages(page)
    restored, said = restore.restore(message, files)
    assert (said, hunks(restored)) == ([], hunks(diff))
    assert [line.split() for line in files["kernel/fork.c"]] == [
        line.split() for line in after.splitlines()
    ]


def test_where_a_hunk_does_not_fit_or_fits_twice_is_said(tmp_path: Path) -> None:
    _, page = damaged(BEFORE, BEFORE.replace("return a;", "return 1;"), tmp_path)
    [message] = restore.messages(page)
    _, said = restore.restore(message, {"kernel/fork.c": (BEFORE + BEFORE).splitlines()})
    assert said == ["not unique: kernel/fork.c:14, 2 ways"]
    other = BEFORE.replace("return a;", "return 2;")
    _, said = restore.restore(message, {"kernel/fork.c": other.splitlines()})
    assert [re.findall("fork.c.*|return.*", line) for line in said] == [
        ["fork.c, hunk at line 14: without return a;"]
    ]
    _, [said] = restore.restore(message, {"kernel/fork.c": []})
    assert "without the file" in said


def test_kentry_reads_what_was_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = sources.repository(tmp_path / "linux")
    sources.commit(tree, "one", {"kernel/fork.c": BEFORE})
    diff, page = damaged(BEFORE, BEFORE.replace("\tif (b)", "\tif (!b)"), tmp_path / "files")
    text = tmp_path / "page.txt"
    text.write_text(page)
    assert main(["series", f"tree:{tree}", str(text), "--arch", "arm64"]) == 2
    assert restore.main(text, f"tree:{tree}", tmp_path / "out") == 0
    [patch] = read_patches([tmp_path / "out"]).patches
    assert (patch.subject, hunks(patch.diff.decode())) == ("one change", hunks(diff))
    text.write_text(page.replace("if (!b)", "if (!b)\nlost"))
    assert restore.main(text, f"tree:{tree}", tmp_path / "none") == 1
    assert not list((tmp_path / "none").iterdir())
