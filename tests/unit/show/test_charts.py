# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures: a chart of a page as a file that stands alone."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from msgspec import structs

from kentry.arch import find_arch
from kentry.results import studies
from kentry.results.comparison import FunctionDelta
from kentry.results.recording import KernelPath
from kentry.show.charts import Point, frames, icicle, line, standing_alone
from kentry.show.studies import log_chart
from tests.builders import recording
from tests.golden.test_golden import a_log

POINTS = [Point(10**n, 10 - n, f"at {n} <>", "change", "change-1", f"+{n}") for n in range(1, 4)]


def drawn() -> str:
    return standing_alone(
        line(
            POINTS,
            "a sweep",
            "timeout",
            "ns a call",
            logarithmic=True,
            bands=[(20, 500)],
            named=[(100, "100 ns")],
            levels=[(5, "<keep>")],
        )
    )


def test_a_picture_is_xml_that_names_its_curves_and_leads_nowhere() -> None:
    root = ET.fromstring(drawn())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = ["".join(one.itertext()) for one in root.iter() if one.tag.endswith("}text")]
    assert {"<keep>", "100 ns", "+3", "timeout"} <= set(texts)
    assert "ns a call; the axis does not begin at 0" in texts
    names = [one.tag.rpartition("}")[2] for one in root.iter()]
    assert (names.count("a"), names.count("script"), names.count("path")) == (0, 0, 1)
    assert "url(" not in drawn() and "@import" not in drawn()


def test_a_path_of_many_calls_has_a_limited_picture() -> None:
    long = recording({"getppid": [(f"f{n}", 1 + n % 3) for n in range(5000)]})
    path = long.cases[0].modal_path
    assert isinstance(path, KernelPath)
    calls = frames(long.instructions(path), find_arch("arm64"))
    drawing, note = icicle(calls, path.length, "x")
    drawn = str(drawing).count('class="frame')
    assert drawn == 600
    assert note == f"; {len(calls) - drawn} small calls are not drawn"
    assert icicle(calls[:600], path.length, "x")[1] == ""


def test_two_paths_are_on_one_axis_and_changes_have_sign_and_depth() -> None:
    old, new = (
        recording({"read": [("entry", 10), ("a", 8), ("b", size), ("c", last)]})
        for size, last in ((4, 1), (24, 0))
    )
    deltas = [FunctionDelta("entry", 10, 10), FunctionDelta("a", 8, 7)]
    deltas += [FunctionDelta("b", 4, 24), FunctionDelta("c", 1, 0)]
    above, below = (
        frames(side.instructions(path), find_arch("arm64"), deltas)
        for side in (old, new)
        if (path := side.cases[0].modal_path)
    )
    text = str(icicle(below, 42, "x", above)[0])
    drawn = re.findall(
        r'class="frame (old|new) ([\w -]+)" x="([\d.]+)%" y="(\d+)"[^>]*><title>(\w+):.*?'
        r"<text>([^<]+)",
        text,
    )
    kinds = {(side, name): (kind, shown) for side, kind, _, _, name, shown in drawn}
    assert kinds["old", "b"] == kinds["new", "b"] == ("worse level-3", "b +20")
    assert kinds["old", "a"] == ("better level-1", "a -1")
    assert kinds["old", "c"] == ("removed level-1", "c -1")
    assert kinds["new", "entry"] == ("same", "entry")
    assert ("new", "c") not in kinds
    # Parts are beside the axis; the old path goes up from there, the new one down.
    rows = {(side, kind.split()[0]): int(y) for side, kind, _, y, *_ in drawn}
    assert rows["old", "worse"] < rows["old", "part"] < rows["new", "part"] < rows["new", "worse"]
    assert text.count("<rect/><rect/>") == sum("level" in kind for _, kind, *_ in drawn)


@pytest.mark.parametrize(
    ("dates", "by_date", "labels"),
    [
        (("2026-01-02", "2026-03-04"), False, ["2026-01", "2026-03"]),
        # 6.12 began before 6.1 ended: months in the order of releases would go back and forth.
        (("2026-03-04", "2026-01-02"), False, ["6.1.170-1", "6.12.57-1"]),
        (("2026-03-04", "2026-01-02"), True, ["2026-01", "2026-03"]),
        (("", ""), False, ["6.1.170-1", "6.12.57-1"]),
    ],
)
def test_a_history_is_labelled_by_months_or_by_releases_where_months_are_out_of_order(
    dates: tuple[str, str], by_date: bool, labels: list[str]
) -> None:
    names = ("debian:6.1.170-1", "debian:6.12.57-1~bpo12+1,flavour=rt-arm64")
    points = tuple(
        studies.Point(place=place, name=name, date=date, value=300 + place)
        for place, (name, date) in enumerate(zip(names, dates, strict=True))
    )
    log = structs.replace(a_log(), points=points, changes=())
    drawing = standing_alone(log_chart(log, by_date=by_date).drawing)
    assert re.findall(r">([\d.-]{7,})<", drawing) == labels


def test_no_label_of_a_change_covers_another_or_a_change() -> None:
    points = [
        Point(at, 100 + 2 * (at % 2), "", "worse", "", f"{delta:+}")
        for at, delta in enumerate([3, -33, 13, 13, -27, 2, 1, -2] * 8)
    ]
    drawing = line(points, "", "x", "y", shape="steps")
    number = r'="([\d.]+)"'
    dots = [(float(x), float(y)) for x, y in re.findall(f"cx{number} cy{number}", drawing)]
    texts = re.findall(f'end caption" x{number} y{number}>([^<]*)', drawing)
    boxes = [(float(x) - 6 * len(t), float(x), float(y) - 9, float(y)) for x, y, t in texts]
    boxes += [(x - 5, x + 5, y - 5, y + 5) for x, y in dots]
    assert len(texts) > 8
    for box, other in combinations(boxes, 2):
        is_label = box in boxes[: len(texts)]
        meets = box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3]
        assert not (is_label and meets), (box, other)
