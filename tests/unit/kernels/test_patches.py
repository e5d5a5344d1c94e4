# SPDX-License-Identifier: GPL-2.0-or-later
"""Patches as people have them, read and then really applied."""

from __future__ import annotations

import base64
import gzip
import os
import shutil
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from pathlib import Path

import pytest

from kentry.errors import UserError
from kentry.kernels import patches
from kentry.kernels import tree as trees
from kentry.kernels.patches import PatchSeries, Step, apply_patches, read_patches
from tests.unit.kernels import sources
from tests.unit.kernels.sources import commit, git, put

ENTRY = "arch/arm64/kernel/entry.c"
BASE = "1f318b96cc84d7c2ab792fcc0bfd42a7ca890681"
TEXT = "".join(f"\tline {number};\n" for number in range(1, 41))

# Each commit: its message, and the lines it changes in ENTRY.
COMMITS = (
    ("entry: do less\n\nBecause.", {5: "\tless = &current;\n"}),
    ("entry: do nothing", {20: "\tnothing;\n", 35: "\tat all;\n"}),
    ("entry: undo\n\n>From here on it is as it was.", {5: "\tline 5;\n"}),
)


def new_tree(folder: Path) -> Path:
    """A repository with ENTRY, for what is applied."""
    return sources.repository(folder, {ENTRY: TEXT, "init/main.c": "int main;\n"})


def steps(tree: Path, series: PatchSeries) -> list[Step]:
    return apply_patches(trees.of_commit(tree, "HEAD"), series.patches)


def apply(tree: Path, series: PatchSeries) -> None:
    """Makes the commits of the series this tree's own."""
    done = steps(tree, series)
    assert [step.problem for step in done if step.problem] == []
    revision = done[-1].revision
    assert revision
    git(tree, "fetch", "-q", str(revision.repository.git.folder), revision.commit)
    git(tree, "reset", "-q", "--hard", revision.commit)


def applied(tree: Path, name: str, content: str | bytes) -> str:
    """The subject of the only patch in a file of that name, once the tree has it."""
    series = read_patches([put(tree.parent / name, content)])
    apply(tree, series)
    [subject] = subjects(series)
    return subject


def show(tree: Path, what: str = "%T", revision: str = "HEAD") -> str:
    return git(tree, "log", "-1", f"--format={what}", revision)


def exported(made: Path, *words: str) -> Path:
    """The folder with the patch of the last commit."""
    git(made, "format-patch", "-1", *words, "-o", str(made.parent / "out"))
    return made.parent / "out"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_tree(tmp_path_factory.mktemp("plain") / "tree")


@pytest.fixture
def tree(tmp_path: Path, plain: Path) -> Path:
    """What patches are applied to."""
    return shutil.copytree(plain, tmp_path / "tree")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, plain: Path) -> Path:
    """The same with COMMITS, to look at only."""
    made = shutil.copytree(plain, tmp_path_factory.mktemp("made") / "tree")
    lines = TEXT.splitlines(keepends=True)
    for message, changes in COMMITS:
        for number, line in changes.items():
            lines[number - 1] = line
        commit(made, message, {ENTRY: "".join(lines)})
    return made


Export = Callable[..., list[Path]]


@pytest.fixture
def export(made: Path, tmp_path: Path) -> Export:
    """Runs git format-patch; its files in their order."""

    def run(*words: str, count: int = len(COMMITS), to: str = "out") -> list[Path]:
        folder = tmp_path / to
        args = ("-q", f"-{count}", "-o", str(folder), *words, f"HEAD~{len(COMMITS) - count}")
        git(made, "format-patch", *args)
        return sorted(folder.iterdir())

    return run


def subjects(series: PatchSeries) -> list[str]:
    return [patch.subject for patch in series.patches]


def concatenated(files: Sequence[Path], file: Path) -> Path:
    return put(file, b"".join(patch.read_bytes() for patch in files))


def error(*files: Path) -> UserError:
    with pytest.raises(UserError) as raised:
        read_patches(files)
    assert raised.value.remedy
    assert "\n" not in str(raised.value)
    return raised.value


def diff_of(file: Path) -> str:
    text = file.read_text()
    return text[text.index("diff --git") :]


ALL = ["entry: do less", "entry: do nothing", "entry: undo"]


@pytest.mark.parametrize("kind", ["files", "mbox", "folder", "folder, not numbered", "CRLF"])
def test_git_format_patch(
    kind: str, export: Export, tree: Path, made: Path, tmp_path: Path
) -> None:
    files = export(*(["-N"] if "not numbered" in kind else []))
    mbox = [concatenated(files, tmp_path / "all.mbox")]
    if kind == "CRLF":
        for file in files:
            file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    series = read_patches({"files": files, "mbox": mbox}.get(kind, [tmp_path / "out"]))
    assert subjects(series) == ALL
    assert series.notes == ()
    assert {patch.author for patch in series.patches} == {"A Test <test@example.org>"}
    assert not any(b"\r" in patch.message + patch.diff for patch in series.patches)
    apply(tree, series)
    assert show(tree) == show(made)
    assert show(tree, "%an %ae %aD%n%B") == show(made, "%an %ae %aD%n%B")
    if kind == "mbox":
        assert series.patches[1].source == f"{mbox[0]}, message 2"


def test_a_thread_of_lore(export: Export, tree: Path, made: Path, tmp_path: Path) -> None:
    """mboxrd, cover letter, replies with and without a diff, another order."""
    cover, one, two, three = (
        file.read_bytes()
        for file in export("--cover-letter", f"--base={show(made, '%H')}~3", "-v8")
    )
    head = b"From mboxrd@z Thu Jan  1 00:00:00 1970\n"
    mails = [head + mail.partition(b"\n")[2] for mail in (cover, two, three, one)]
    mails[0] += b"change-id: 20230807-arm64-sve-trap-2e7e2663c849\n"
    # In mboxrd each line that begins ">From " or "From " has one more ">".
    mails[2] = mails[2].replace(b"\n>From here", b"\n>>From here")
    reply = head + b"From: Will <will@kernel.org>\nSubject: Re: [PATCH v8 1/3] entry: do less\n\n"
    quoted = b"".join(b"> " + line for line in one.splitlines(keepends=True))
    mails += [reply + b"No.\n" + quoted, reply + one.partition(b"\n\n")[2]]
    mails += [reply + f"base-commit: {'0' * 40}\n".encode()]
    series = read_patches([put(tmp_path / "t.mbox", b"\n".join(mails))])
    assert subjects(series) == ALL
    assert series.base_commit == show(made, "%H", "HEAD~3")
    assert series.change_id == "20230807-arm64-sve-trap-2e7e2663c849"
    assert ["3 replies" in series.notes[0], "cover letter" in series.notes[1]] == [True, True]
    assert "sorted" in series.notes[2]
    apply(tree, series)
    assert show(tree) == show(made)
    assert "\n>From here on" in show(tree, "%B")


def test_two_versions_in_one_mbox_are_no_series(export: Export, tmp_path: Path) -> None:
    old, new = export("-v7", count=2, to="old"), export("-v8", to="new")
    file = concatenated([*old, *new], tmp_path / "t.mbox")
    raised = error(file)
    assert f"is there twice, in {file}, message 3" in raised.sentence
    assert "one version" in raised.remedy


@pytest.mark.parametrize("name", ["patches", "patches/series", "patches/my.series"])
def test_a_quilt_series(name: str, export: Export, tree: Path, made: Path, tmp_path: Path) -> None:
    one, two, three = export()
    series_file = name.partition("/")[2] or "series"
    files = {
        "one.patch": diff_of(one),
        "more/two.diff": "Origin: me\n\n" + diff_of(two),
        "three": three.read_text(),
        series_file: "# a series\n\none.patch -p1\nmore/two.diff # second\nthree\n",
    }
    sources.write(tmp_path / "patches", files)
    # That the last is [PATCH 3/3] says nothing about its place here.
    series = read_patches([tmp_path / name])
    assert subjects(series) == ["one", "two", "entry: undo"]
    apply(tree, series)
    assert show(tree) == show(made)


def test_a_bare_diff(export: Export, tree: Path) -> None:
    assert applied(tree, "less.diff", diff_of(export()[0]).replace("\n", "\r\n")) == "less"
    assert show(tree, "%an <%ae> %ad") == (
        "unknown <unknown@localhost> Thu Jan 1 00:00:00 1970 +0000"
    )
    assert "less = &current" in (tree / ENTRY).read_text()
    assert "\r" not in (tree / ENTRY).read_text()


def test_what_gnu_diff_writes(tree: Path) -> None:
    diff = (
        "Only in b: x\ndiff -ru a/init/main.c b/init/main.c\n"
        "--- a/init/main.c\t2021-09-03 05:19:50.000000000 +0000\n"
        "+++ b/init/main.c\t2021-09-03 05:19:51.000000000 +0000\n"
        "@@ -1 +1 @@\n-int main;\n+int other;\n\\ No newline at end of file\n"
    )
    applied(tree, "gnu.patch", diff)
    assert (tree / "init/main.c").read_text() == "int other;"


@pytest.mark.parametrize(
    ("head", "subject"),
    [
        ("Description: do less\n of it\nForwarded: no\n\n", "x"),
        ("commit " + "a" * 40 + "\nAuthor: A B <a@b.org>\n\n    text\n\n", "x"),
        ("[PATCH] do less\n\nA at b.org\n\nBecause.\n---\n x | 2 +-\n\n", "do less"),
        ("Some words.\n\nFrom: nowhere\n\n", "x"),
        ("\n\n\n", "x"),
    ],
)
def test_words_above_a_diff(head: str, subject: str, export: Export, tree: Path) -> None:
    assert applied(tree, "x.patch", head + diff_of(export()[0])) == subject
    assert "less = &current" in (tree / ENTRY).read_text()


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64", "8bit"])
def test_an_encoded_mail(encoding: str, export: Export, tree: Path) -> None:
    mail = EmailMessage()
    mail["From"] = "Jörg Müller <jm@kernel.org>"
    mail["Date"] = "Fri, 3 Sep 2021 05:19:50 +0200"
    mail["Subject"] = "[PATCH] entry: für \u202eall\x1b[31m"
    mail["Content-Type"] = "text/plain; charset=utf-8"
    mail["Content-Transfer-Encoding"] = encoding
    body = f"Grüße\n---\n{diff_of(export()[0])}".replace("\n", "\r\n").encode()
    if encoding == "base64":
        body = base64.encodebytes(body)
    elif encoding == "quoted-printable":
        body = body.replace(b"=", b"=3D").replace(b"\r\n", b"=0D\r\n")
    subject = applied(tree, "x.eml", mail.as_bytes().rstrip() + b"\n\n" + body)
    # git itself takes [31m out, as it does any brackets at the head of a subject.
    assert subject.startswith("entry: für all") and subject.isprintable()
    assert show(tree, "%an %b") == "Jörg Müller Grüße"
    assert "\r" not in (tree / ENTRY).read_bytes().decode()


@pytest.mark.parametrize(
    ("head", "shown"),
    [
        ("From: lei@kernel.org (Zhen Lei)", "Zhen Lei lei@kernel.org 0"),
        *(
            (f"From: A <a@b.org>\nDate: {date}", "A a@b.org 0")
            for date in ("soon", "Fri, 3 Sep 3021 05:19:50 +0000", "32 Foo 2021")
        ),
    ],
)
def test_a_mail_without_an_address_or_a_date_that_git_takes(
    head: str, shown: str, export: Export, tree: Path
) -> None:
    applied(tree, "x.eml", f"{head}\nSubject: [PATCH] x\n\n{diff_of(export()[0])}")
    assert show(tree, "%an %ae %at") == shown


def test_a_mail_that_is_not_in_utf_8(export: Export, tree: Path) -> None:
    head = (
        b"From: =?iso-8859-1?q?J=F6rg?= <a@b.org>\nSubject: =?iso-8859-2?q?h=B1?=\n"
        b"Content-Type: text/plain; charset=iso-8859-2\n\nB\xb1h.\n---\n"
    )
    assert applied(tree, "x.eml", head + diff_of(export()[0]).encode()) == "h\u0105"
    assert show(tree, "%an %b") == "J\u00f6rg B\u0105h."


def test_a_mail_with_a_second_from_in_its_text(export: Export, tree: Path) -> None:
    text = export("-N")[0].read_text()
    body = text.partition("\n")[2].replace("Because.", "From me Mon Sep 17 00:00:00 2001\nx")
    applied(tree, "x.eml", body)
    assert "From me Mon" in show(tree, "%b")


def test_patches_stay_where_they_are_if_one_has_no_number(export: Export, tmp_path: Path) -> None:
    one, two, _ = export()
    fix = put(tmp_path / "fix.patch", diff_of(two))
    two.write_text(two.read_text().replace("2/3", "2/2"))
    one.write_text(one.read_text().replace("1/3", "1/2"))
    series = read_patches([two, fix, one])
    assert subjects(series) == ["entry: do nothing", "fix", "entry: do less"]


def test_a_new_link_inside_the_tree_and_binary_files_are_fine(tree: Path, tmp_path: Path) -> None:
    made = new_tree(tmp_path / "made")
    (made / "arch/link").symlink_to("../init/main.c")
    (made / "logo").write_bytes(bytes(range(256)))
    git(made, "mv", "init/main.c", "init/other file.c")
    commit(made, "link\n\nfrom ../../etc", {})
    exported(made)
    apply(tree, read_patches([tmp_path / "out"]))
    assert show(tree) == show(made)


def test_an_author_that_git_takes_for_none_is_a_patchs_fault(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.patch"
    hunk = "".join(f" \tline {at};\n" for at in (2, 3, 4)) + "-\tline 5;\n+\tnone;\n"
    hunk += "".join(f" \tline {at};\n" for at in (6, 7, 8))
    diff = f"--- a/{ENTRY}\n+++ b/{ENTRY}\n@@ -2,7 +2,7 @@\n{hunk}"
    file.write_text(f"From: . <a@b.c>\nSubject: [PATCH] none\n\nText.\n---\n{diff}")
    [step] = steps(tree, read_patches([file]))
    assert step.problem.startswith("cannot be committed") and not step.revision
    body = base64.b64encode(f"A\0B\n---\n{diff}".encode()).decode()
    head = "From: A <a@b.c>\nSubject: [PATCH] none\nContent-Transfer-Encoding: base64\n"
    file.write_text(f"{head}\n{body}\n")
    [step] = steps(tree, read_patches([file]))
    assert step.revision and not step.problem


@pytest.mark.slow
def test_a_small_patch_of_a_large_file_is_refused(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patches, "_MOST_MEMORY", 32 << 20)
    made = new_tree(tmp_path / "made")
    (made / "zeros").write_bytes(bytes(64 << 20))
    commit(made, "zeros", {})
    exported(made)
    series = read_patches([tmp_path / "out"])
    assert "memory" in steps(tree, series)[0].problem.lower()


def numbers(text: str) -> str:
    """A diff whose tabs are gone, as a page rendered as text has it."""
    return "\n".join(line.lstrip(" \t") for line in text.split("\n"))


@pytest.mark.parametrize(
    "damage",
    [
        numbers,
        lambda text: text.replace("\n \t", "\n"),
        lambda text: text.replace(" \tline 4;\n", ""),
        lambda text: text.replace(" \tline 4;\n", " \tline\n4;\n"),
        lambda text: text.replace("+\tless = &current;\n", "+\tless =\n +\t&current;\n"),
        lambda text: text.replace("-2,7 +2,7", "-2,6 +2,6"),
        lambda text: text.replace("-2,7 +2,7", "-2,6 +2,8"),
        lambda text: text.replace("-2,7 +2,7 @@", "-2,7\n+2,7 @@"),
        lambda text: text.replace("-2,7 +2,7 @@", f"-2,7 +2,{'7' * 5000} @@"),
        lambda text: text[: text.index(" \tline 8;")],
    ],
)
@pytest.mark.parametrize("bare", [False, True])
def test_a_damaged_hunk(
    damage: Callable[[str], str], bare: bool, export: Export, tmp_path: Path
) -> None:
    text = export("-N")[0].read_text()
    head, diff = text[: text.index("diff --git")], text[text.index("diff --git") :]
    file = put(tmp_path / "x.patch", ("" if bare else head) + damage(diff))
    line = 1 + file.read_text().partition("\n@@")[0].count("\n") + 1
    raised = error(file)
    subject = "x" if bare else "entry: do less"
    assert f"Patch 1 ({subject})" in raised.sentence
    assert f"line {line} of {file} for {ENTRY} " in raised.sentence
    assert "b4 am" in raised.remedy


def test_the_line_of_a_damaged_hunk_is_that_of_the_mbox(export: Export, tmp_path: Path) -> None:
    one, two, three = export()
    two.write_text(two.read_text().replace(" \tline 36;\n", "line 36;\n"))
    file = concatenated([one, two, three], tmp_path / "all.mbox")
    line = (one.read_text() + two.read_text()).rpartition("@@ -")[0].count("\n") + 1
    assert f"hunk at line {line} of {file} for" in error(file).sentence


def test_the_line_of_an_encoded_mail_is_that_of_its_diff(export: Export, tmp_path: Path) -> None:
    diff = diff_of(export()[0]).replace(" \tline 4;\n", "")
    head = "From: A <a@b.org>\nSubject: x\nContent-Transfer-Encoding: base64\n\n"
    file = put(tmp_path / "x.eml", head + base64.encodebytes(diff.encode()).decode())
    assert "line 5 of " in error(file).sentence


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\0\1\2", "archive or binary"),
        ("diff --git a/x b/x\n".encode("utf-16"), "archive or binary"),
        (gzip.compress(b"diff", mtime=0), "archive or binary"),
        (b"hello\nworld\n", "has no patch in it"),
        (b"From: A <a@b>\nSubject: Re: x\n\ndiff --git a/x b/x\n", "(skipped 1 reply)"),
        (b"From: A <a@b>\nSubject: [PATCH 0/2] x\n\ntext\n", "skipped cover letter '[PATCH 0/2]"),
        (b"From: A <a@b>\nSubject: x\n\ntext\n", "skipped 'x': it has no diff"),
        (b"diff --git a/x b/x\n--- a/x\n+++ b/x\n", "the hunk at line 4 of"),
        (b"--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "git apply cannot read it"),
        (b"diff -u a b\n@@ -1 +1 @@\n-a\n+b\n", "the hunk at line 2 of"),
        (b"From x Mon Sep 17 00:00:00 2001\n\n" * 1001, "1001 messages"),
        (b"commit %b\n--- a/x\n+++ b/x\n" % (b"a" * 40) * 2, "nothing keeps apart"),
        (b"* [PATCH] x\n--- a/x\n+++ b/x\n^ permalink raw\t[flat]\n", "nothing keeps apart"),
    ],
)
def test_a_file_without_a_patch(data: bytes, words: str, tmp_path: Path) -> None:
    assert words in error(put(tmp_path / "x", data)).sentence


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert str(tmp_path / "x.mbox") in error(tmp_path / "x.mbox").sentence
    (tmp_path / "empty").mkdir()
    assert "has no *.patch" in error(tmp_path / "empty").sentence
    assert "no patch" in error().sentence


def test_a_patch_that_is_missing(export: Export) -> None:
    one, two, three = export()
    assert "Patch 2 of 3" in error(three, one).sentence
    # The beginning of a series is one.
    series = read_patches([one, two])
    assert len(series.patches) == 2
    assert ["1 to 2" in note for note in series.notes] == [True]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("one.patch -p0", "'-p0'; only -p1"),
        ("one.patch -R", "'-R'; only -p1"),
        ("two.patch", "not a file there"),
        ("/etc/passwd", "outside its folder"),
        ("../out.patch", "outside its folder"),
        ("sub/../one.patch", "outside its folder"),
        ("loop.patch", "not a file there"),
        ("x" * 5000, "not a file there"),
        ("link.patch", "outside its folder"),
        ("# nothing", "names no patch"),
    ],
)
def test_a_quilt_series_kentry_does_not_take(line: str, words: str, tmp_path: Path) -> None:
    put(tmp_path / "out.patch", "x")
    put(tmp_path / "q/one.patch", "x")
    (tmp_path / "q/sub").mkdir()
    (tmp_path / "q/link.patch").symlink_to("../out.patch")
    (tmp_path / "q/loop.patch").symlink_to("loop.patch")
    put(tmp_path / "q/series", f"# first\n{line}\n")
    raised = error(tmp_path / "q")
    assert words in raised.sentence
    if "names no patch" not in words:
        assert f"Line 2 of {tmp_path / 'q/series'}" in raised.sentence


HUNK = "@@ -0,0 +1 @@\n+x\n"
NEW = "new file mode 100644\n--- /dev/null\n"


@pytest.mark.parametrize(
    ("diff", "path"),
    [
        (f"diff --git a/../x b/../x\n{NEW}+++ b/../x\n{HUNK}", "../x"),
        (f"diff --git a/x b/x\n{NEW}+++ b/arch/../../x\n{HUNK}", "arch/../../x"),
        (
            f'diff --git "a/\\056\\056/x" "b/\\056\\056/x"\n{NEW}+++ "b/\\056\\056/x"\n{HUNK}',
            "../x",
        ),
        (f"diff --git a/.git/config b/.git/config\n{NEW}+++ b/.git/config\n{HUNK}", ".git/config"),
        (f"--- /dev/null\n+++ /etc/passwd\n{HUNK}", "/etc/passwd"),
        (f"--- /dev/null\n+++ b//etc/passwd\n{HUNK}", "/etc/passwd"),
        ("diff --git a/x b/x\nrename from x\nrename to ../y\n", "../y"),
        ("diff --git a/x b/x\ncopy from /etc/passwd\ncopy to y\n", "/etc/passwd"),
    ],
)
def test_a_patch_that_leaves_the_tree(diff: str, path: str, tmp_path: Path) -> None:
    raised = error(put(tmp_path / "evil.patch", diff))
    assert raised.sentence.startswith(f"Patch 1 (evil) changes {path}, ")


@pytest.mark.parametrize(
    ("name", "target", "fine"),
    [
        ("a/link", "../x", True),
        # Inside by its words, but b may itself be a link, which an earlier patch made.
        ("a/link", "b/../../x", False),
        ("a/link", "../../x", False),
        ("link", "/etc/passwd", False),
        ("link", "..", False),
        ("link", "a/../../x", False),
    ],
)
def test_a_link_out_of_the_tree(
    name: str, target: str, fine: bool, tree: Path, tmp_path: Path
) -> None:
    made = new_tree(tmp_path / "made")
    (made / name).parent.mkdir(exist_ok=True)
    (made / name).symlink_to(target)
    commit(made, "evil", {})
    exported(made)
    if fine:
        apply(tree, read_patches([tmp_path / "out"]))
        assert os.readlink(tree / name) == target
        return
    with pytest.raises(UserError) as raised:
        steps(tree, read_patches([tmp_path / "out"]))
    assert name in raised.value.sentence
    assert target in raised.value.sentence


@pytest.mark.parametrize("words", [("-M",), ("--no-renames",), ("--binary",)])
def test_a_link_that_is_moved_out_of_the_tree(
    words: tuple[str], tree: Path, tmp_path: Path
) -> None:
    (tree / "arch/arm64/up").symlink_to("../../init")
    commit(tree, "a link", {})
    made = shutil.copytree(tree, tmp_path / "made", symlinks=True)
    git(made, "mv", "arch/arm64/up", "arch/up")
    commit(made, "evil", {})
    exported(made, *words)
    with pytest.raises(UserError) as raised:
        steps(tree, read_patches([tmp_path / "out"]))
    assert "arch/up" in raised.value.sentence


def test_a_removed_line_that_looks_like_a_name(tree: Path) -> None:
    commit(tree, "sql", {"x.sql": "-- ../../x\n"})
    applied(tree, "x.patch", "--- a/x.sql\n+++ b/x.sql\n@@ -1 +1 @@\n--- ../../x\n+++ ../../y\n")
    assert (tree / "x.sql").read_text() == "++ ../../y\n"


def test_the_hunk_that_does_not_match(export: Export, tree: Path) -> None:
    commit(tree, "other", {ENTRY: TEXT.replace("line 35;", "other;")})
    assert f"{ENTRY} at line 32 " in steps(tree, read_patches(export()))[1].problem
    # A file that is not there.
    git(tree, "rm", "-q", ENTRY)
    commit(tree, "gone", {})
    assert f"{ENTRY}: does not exist" in steps(tree, read_patches(export()))[0].problem


def test_a_folder_s_devices_and_pipes_are_no_patches(tmp_path: Path) -> None:
    (tmp_path / "0001-x.patch").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "0002-x.patch")
    with pytest.raises(UserError):
        read_patches([tmp_path])
