# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures: a chart of a page as a file that stands alone."""

import xml.etree.ElementTree as ET

from kentry.arch import find_arch
from kentry.results.recording import KernelPath
from kentry.show.charts import Point, frames, icicle, line, standing_alone
from tests.builders import recording

POINTS = [Point(10**n, 10 - n, f"at {n} <>", "change", "change-1", f"+{n}") for n in range(1, 4)]


def drawn() -> str:
    return standing_alone(
        line(
            POINTS,
            "a sweep",
            "timeout",
            "ns a call",
            logarithmic=True,
            band=(20, 500),
            named=[(100, "100 ns")],
            levels=[(5, "<keep>")],
        )
    )


def test_a_picture_is_xml_that_names_its_curves_and_leads_nowhere() -> None:
    root = ET.fromstring(drawn())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = ["".join(one.itertext()) for one in root.iter() if one.tag.endswith("}text")]
    assert {"<keep>", "100 ns", "+3", "timeout", "ns a call"} <= set(texts)
    names = [one.tag.rpartition("}")[2] for one in root.iter()]
    assert (names.count("a"), names.count("script"), names.count("path")) == (0, 0, 1)
    assert "url(" not in drawn() and "@import" not in drawn()


def test_a_path_of_many_calls_has_a_limited_picture() -> None:
    long = recording({"getppid": [(f"f{n}", 1 + n % 3) for n in range(5000)]})
    path = long.cases[0].modal_path
    assert isinstance(path, KernelPath)
    assert (
        str(icicle(frames(long.instructions(path), find_arch("arm64")), path.length, "x")).count(
            "<rect"
        )
        < 5000
    )
