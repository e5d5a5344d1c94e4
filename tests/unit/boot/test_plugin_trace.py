# SPDX-License-Identifier: GPL-2.0-or-later
"""The trace reader: a whole one, and every way to be less than that."""

import os
from pathlib import Path

import pytest

from kentry.boot.plugin_trace import MOST_BYTES, parse_trace, read_text, tidy
from kentry.errors import TraceError
from kentry.results.recording import Access

WHOLE = """\
kentry-trace 2
qemu aarch64 api=1
message text ffff800080000000
message case getppid count 1
window 2 312 0 1 0 0 0 - -
window 1 9000 0 1 1 0 0 - -
message case getppid path 1
insn 0 ffff800080010c00 03000014 b #0xffff800080010c0c
insn 1 ffff800080010c0c ff4305d1 sub sp, sp, #0x150
path 0 3 0+2 0+1
accesses 0 0:ffff000000001000:16:s 1:ffff000000001008:8:l
window 4 3 0 1 0 0 0 0 1,1,8,16,1,1,1,1
message end 1
spoilt 0
check 7 0
end 7
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "trace"
    file.write_text(text)
    return file


def test_a_whole_trace(tmp_path: Path) -> None:
    trace = parse_trace(write(tmp_path, WHOLE))
    assert (trace.api, trace.text_address) == (1, 0xFFFF800080000000)
    assert [(phase.case, phase.name, phase.user) for phase in trace.phases] == [
        ("getppid", "count", 1),
        ("getppid", "path", 1),
    ]
    assert [(w.times, w.kernel, w.irqs) for w in trace.phases[0].windows] == [
        (2, 312, 0),
        (1, 9000, 1),
    ]
    assert trace.paths == [[(0, 2), (0, 1)]]
    assert trace.path_length(0) == 3
    assert trace.accesses == {
        ("getppid", 0): (
            Access(0, 0xFFFF000000001000, 16, True),
            Access(1, 0xFFFF000000001008, 8, False),
        )
    }
    touched = trace.touched["getppid", 0]
    assert (touched["loads"], touched["bytes.stored"], touched["pages.data"]) == (1, 16, 1)
    assert (trace.cases_ended, trace.checked, trace.mismatches) == (1, 7, 0)


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    lines = WHOLE.splitlines(keepends=True)
    for kept in range(len(lines)):
        with pytest.raises(TraceError):
            parse_trace(write(tmp_path, "".join(lines[:kept])))
    with pytest.raises(TraceError, match="wrote no trace"):
        parse_trace(tmp_path / "none")


@pytest.mark.parametrize(
    ("line", "damaged"),
    [
        ("kentry-trace 2", "kentry-trace 3"),
        ("accesses 0", "accesses 1"),
        ("1:ffff000000001008", "3:ffff000000001008"),
        (":8:l", ":8:x"),
        ("1,1,8,16,1,1,1,1", "1,1,8,16,1,1,1"),
        ("window 2 312", "window 1 312"),
        ("path 0 3", "path 0 4"),
        ("path 0 3", "path 1 3"),
        ("insn 0 ", "insn 7 "),
        ("end 7", "end seven"),
        ("spoilt 0", "spolit 0"),
    ],
)
def test_damage_is_noticed(tmp_path: Path, line: str, damaged: str) -> None:
    with pytest.raises(TraceError):
        parse_trace(write(tmp_path, WHOLE.replace(line, damaged)))


def test_disassembly_loses_qemus_decoration() -> None:
    assert tidy("73120214", "14021273          csrrw    tp,sscratch,tp") == "csrrw tp,sscratch,tp"
    assert tidy("2d71", "712d   addi  sp,sp,-288") == "addi sp,sp,-288"
    assert tidy("03000014", "b #0xffff800080010c0c") == "b #0xffff800080010c0c"


def test_a_plugin_that_wrote_nothing_is_not_taken_for_an_old_one(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as nothing:
        parse_trace(write(tmp_path, ""))
    with pytest.raises(TraceError) as old:
        parse_trace(write(tmp_path, WHOLE.replace("trace 2", "trace 0")))
    assert "make setup" in old.value.remedy and "make setup" not in nothing.value.remedy


def test_a_text_of_the_plugins_is_read_up_to_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "counts"
    file.write_bytes(b"clock 1\n\xff")
    assert read_text(file) == "clock 1\n\ufffd"
    os.truncate(file, MOST_BYTES)
    assert len(read_text(file)) == MOST_BYTES
    os.truncate(file, MOST_BYTES + 1)
    with pytest.raises(TraceError):
        read_text(file)
    with pytest.raises(TraceError) as error:
        parse_trace(file)
    assert "--paths" in error.value.remedy
