# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages: their numbers are the JSON's, no text in them is markup, and bad input is a sentence."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kentry.arch import find_arch
from kentry.cli import main
from kentry.commands.pages import KINDS, report
from kentry.compare.counted import compare, with_paths_and_samples
from kentry.errors import RecordingError, UserError
from kentry.path.calls import call_depths
from kentry.results.document import dump
from kentry.results.recording import read_recording, write_recording
from kentry.results.studies import NO_BUILD, Problem
from kentry.results.workload import read_workload
from kentry.show.charts import frames
from kentry.show.page import embedded
from kentry.show.provenance import repeat, versions
from kentry.study.series import tabulate
from tests.builders import imported, outcome, recording, timed
from tests.unit.show.pages import GOLDEN, HOSTILE, NEW, OLD, Page, files, hostile, unpacked
from tests.unit.show.samples import table

KINDS_HERE = (
    *("recording", "two-recordings", "comparison", "path-diff", "series", "uneven-series"),
    *("bisection", "log", "ablation", "check", "workload", "workload-comparison"),
    *("timed", "timed-comparison"),
)

# What stands around a term that is explained.
TOOLTIP = re.compile("<abbr [^>]*>|</abbr>")


@pytest.fixture(scope="module")
def of_kind(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    return files(tmp_path_factory.mktemp("kinds"))


def test_every_kind_is_tried_here_or_beside(of_kind: dict[str, list[Path]]) -> None:
    assert set(of_kind) == set(KINDS_HERE)
    # The replay's page is in the test of the browser.
    assert set(KINDS) - set(KINDS_HERE) == {"vector-replay"}


@pytest.mark.parametrize("kind", KINDS_HERE)
def test_a_page_has_its_files_json_loads_nothing_and_runs_only_its_own_script(
    kind: str, of_kind: dict[str, list[Path]]
) -> None:
    text = report(of_kind[kind])
    page = Page(text)
    documents = [json.loads(file.read_text()) for file in of_kind[kind]]
    if len(documents) == 2:
        old, new = map(read_recording, of_kind[kind])
        documents = [json.loads(dump(with_paths_and_samples(compare(old, new), old, new)))]
    assert page.json == documents
    names = [name for name, _ in page.attributes]
    assert not [name for name in names if name.startswith("on") or name in ("style", "src")]
    links = [value or "" for name, value in page.attributes if name == "href"]
    assert {link[:1] for link in links} - {"#"} == {"d"}  # data:, of the empty icon
    assert page.tags.count("style") == 1
    assert page.tags.count("script") == 1 + len(page.json)
    policy = next(value for _, value in page.attributes if value and "default-src" in value)
    assert [part for part in policy.split("; ") if "-src 'sha256-" not in part] == [
        "default-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "img-src data:",
    ]
    assert "unsafe" not in policy
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link[:1] == "#"} <= set(ids)
    # Every picture has a name.
    for tag in re.findall("<svg[^>]*>", text):
        assert 'aria-label="' in tag or 'aria-hidden="true"' in tag or 'class="frame' in tag


def test_the_first_screen_says_what_was_measured_and_how(of_kind: dict[str, list[Path]]) -> None:
    first, _, _ = report([OLD, NEW]).partition("<table")
    head = Page(first)
    badges = re.findall(r'<span class="tag">(.*?)</span>', TOOLTIP.sub("", first))
    for text in ("exact", "emulated, not time", "arm64", "QEMU 7.2.22", "kentry 0.1.0"):
        assert text in badges
    # A term is explained where it comes first.
    report_text = report([OLD, NEW])
    for term in ("exact", "verdict"):
        assert len(re.findall(f"<abbr title=[^>]*>{term}</abbr>", report_text)) == 1
    cases = "clock_gettime@vdso,getppid,invalid"
    command = f"kentry diff debian:6.1 debian:6.12 --arch arm64 --case {cases}"
    assert f"<code>{command}</code>" in first
    # Each caveat stands there, whole or by its beginning, and opens.
    for caveat in compare(read_recording(OLD), read_recording(NEW)).caveats:
        assert caveat["text"] in head.text
    # Of times nothing says that they are exact, and no command makes an import again.
    first, _, _ = report(of_kind["timed-comparison"]).partition("<table")
    assert '<span class="tag">exact</span>' not in TOOLTIP.sub("", first)
    assert "<code>" not in first


def test_a_closed_patch_says_what_it_costs(of_kind: dict[str, list[Path]]) -> None:
    text = report(of_kind["series"])
    heads = re.findall(r'<details id="patch-(\d+)"[^>]*><summary>(.*?)</summary>', text)
    rows = json.loads(of_kind["series"][0].read_text())["rows"]
    cells = {str(row["patch"]): row["cases"].values() for row in rows}
    assert len(heads) == len(rows) - 1
    for patch, head in heads:
        steps = {cell["delta"] for cell in cells[patch] if cell["delta"]}
        assert {int(one) for one in re.findall(r" ([+-]\d+)</span>", head)} == steps
    assert '<span class="tag">exact</span>' in TOOLTIP.sub("", text)


def test_a_command_names_processors_where_they_differ() -> None:
    old, new = read_recording(OLD), read_recording(NEW)
    old.target["processor"], new.target["processor"] = "max", "cortex-a76"
    assert repeat("diff", (old, new), ["getppid"]) == (
        "kentry diff debian:6.1,cpu=max debian:6.12,cpu=cortex-a76 --arch arm64 --case getppid"
    )
    assert repeat("record", [new], ["read"]).endswith("--arch arm64 --cpu cortex-a76 --case read")
    new.kernel["spec"] = "tree:~/linux@HEAD"
    assert repeat("record", [new], ["read"]) == ""


def test_function_deltas_of_a_comparison_add_up_on_the_page() -> None:
    page = Page([OLD, NEW])
    for case in page.json[0]["cases"]:
        assert sum(one["delta"] for one in case["functions"]) == case["delta"]
    deltas = [int(text or 0) for kind, text in page.cells if kind == "delta"]
    sums = [int(text) for kind, text in page.cells if kind == "sum"]
    cases = [case["delta"] for case in page.json[0]["cases"]]
    # The largest change comes first.
    assert sums == sorted((one for one in cases if one), key=lambda one: -abs(one))
    assert sum(deltas) == sum(sums)


def test_the_path_is_drawn_whole_and_every_call_in_its_caller() -> None:
    old = read_recording(OLD)
    arch = find_arch("arm64")
    for case in old.cases:
        path = case.modal_path
        assert path
        if not path.length:
            continue
        drawn = frames(old.instructions(path), arch)
        rows: dict[int, list[Any]] = {}
        for frame in drawn:
            rows.setdefault(frame.depth, []).append(frame)
        assert [sum(one.size for one in rows[depth]) for depth in (0, 1)] == [path.length] * 2
        deepest = max(call_depths(old.instructions(path), arch))
        assert max(rows) == deepest + 1
        for depth in range(1, deepest + 2):
            callers = rows[depth - 1] if depth > 1 else []
            for frame in rows[depth]:
                own = int(re.findall(r"(\d+) its own", frame.title)[0])
                end = frame.first + frame.size
                below = [one for one in rows.get(depth + 1, []) if frame.first <= one.first < end]
                assert own + sum(one.size for one in below) == frame.size
                assert depth == 1 or any(
                    one.first <= frame.first and end <= one.first + one.size for one in callers
                )


@pytest.mark.parametrize("text", ["</script>", "<!--", "\u2028", "&amp;", "]]>", HOSTILE])
def test_json_in_a_page_is_the_same_and_ends_no_script(text: str) -> None:
    document = {"name": text, text: [text]}
    found = embedded(document)
    assert unpacked(found) == document
    assert found == embedded(document)
    assert not set(found) & set("<>&\u2028")


@pytest.mark.parametrize("kind", [one for one in KINDS_HERE if not one.startswith("t")])
def test_hostile_texts_are_texts(kind: str, of_kind: dict[str, list[Path]], tmp_path: Path) -> None:
    file = tmp_path / "hostile.json"
    file.write_text(hostile(kind, of_kind[kind][0]))
    text = report([file])
    page = Page(text)
    assert "img" not in page.tags
    assert page.tags.count("script") == 2
    assert "taken" in page.text
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "49 javascript" not in text


@pytest.mark.slow
def test_a_series_with_its_recordings_has_both_paths_of_each_patch(tmp_path: Path) -> None:
    """Also across a patch that did not build, and beside recordings that are not the series'."""
    made = [read_recording(file) for file in (OLD, NEW, OLD)]
    for patch, one in enumerate(made):
        # The last patch takes the first one back: its image is the baseline's.
        one.kernel |= {
            "origin": one.kernel["origin"] | {"patched_commit": f"{patch:040x}"},
            "image_sha256": str(patch % 2) * 64,
        }
        write_recording(one, tmp_path / f"{patch}.json")
    none = "arm64", Problem(NO_BUILD, "make failed.")
    base, first, last = made
    rows = [outcome(0, "baseline", base), outcome(1, "worse", first), outcome(3, "broken", none)]
    rows.append(outcome(2, "better", last))
    (tmp_path / "series.json").write_text(dump(tabulate(rows, {})))
    files = sorted(tmp_path.glob("*.json"))
    page = Page(files)
    assert page.text.count("Both paths of getppid, side by side") == 2
    assert page.text.count("(+2): 21 added, 19 removed, 3 moved, 288 the same") == 1
    assert page.text.count("(-2): 19 added, 21 removed, 3 moved, 288 the same") == 1
    # A recording alone has its own part of the page; another kernel's is no row.
    assert "Both paths" not in Page([tmp_path / "series.json"]).text
    without = Page([tmp_path / "series.json", tmp_path / "2.json"])
    assert "Both paths" not in without.text
    assert (len(page.json), len(without.json)) == (1, 2)
    other = read_recording(NEW)
    other.kernel["image_sha256"] = "f" * 64
    write_recording(other, tmp_path / "other.json")
    # Nor is one with other counts, another target or other cases, whichever is named first.
    other_counts = {name: [("f", 9)] for name in (case.name for case in first.cases)}
    for change in (
        {"cases": recording(other_counts).cases, "code": recording(other_counts).code},
        {"target": first.target | {"kind": "kvm"}},
        {"cases": [*first.cases, replace(first.cases[0], name="read")]},
    ):
        write_recording(replace(first, **change), tmp_path / "wrong.json")
        for names in (("wrong", "0", "series"), ("0", "wrong", "series")):
            text = Page([tmp_path / f"{name}.json" for name in names]).text
            assert "Both paths of" not in text
    (tmp_path / "wrong.json").unlink()
    beside = Page([*files, tmp_path / "other.json"])
    assert beside.text.count("side by side") == 4
    assert len(beside.json) == 2


def test_a_build_log_is_shown_without_control_characters(tmp_path: Path) -> None:
    found = table(Problem(NO_BUILD, "make failed.", "one\ntwo \x1b[31mred\u202e\ud800"))
    (tmp_path / "series.json").write_text(dump(found))
    text = report([tmp_path / "series.json"])
    assert "one\ntwo \ufffd[31mred\ufffd\ufffd" in text and text.encode()


def test_two_recordings_of_two_architectures_are_both_shown(tmp_path: Path) -> None:
    other = tmp_path / "riscv.json"
    write_recording(recording({"getppid": [("x", 4)]}, kernel={"arch": "riscv64"}), other)
    page = Page([NEW, other])
    assert [one["schema"] for one in page.json] == ["kentry/recording/1"] * 2
    assert "not compared" in page.text and "two architectures" in page.text


def test_several_files_are_one_page_with_a_list_of_them(of_kind: dict[str, list[Path]]) -> None:
    page = Page([*of_kind["series"], *of_kind["log"], *of_kind["uneven-series"]])
    assert len(page.json) == 3
    assert page.tags.count("nav") == 1
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_a_result_is_shown_once(of_kind: dict[str, list[Path]], tmp_path: Path) -> None:
    """As the series that is both in the folder of its rows and in a file beside it."""
    again = tmp_path / "again.json"
    again.write_bytes(of_kind["series"][0].read_bytes())
    page = Page([again, *of_kind["log"], *of_kind["series"]])
    assert [one["schema"] for one in page.json] == ["kentry/series/1", "kentry/log/1"]
    # A recording beside itself is a comparison.
    assert [one["schema"] for one in Page([NEW, NEW]).json] == ["kentry/comparison/1"]
    assert [one["schema"] for one in Page([NEW, OLD, OLD]).json] == ["kentry/comparison/1"]


def test_a_recording_without_paths_and_one_of_imported_numbers_have_pages(tmp_path: Path) -> None:
    bare = recording({"getppid": [("x", 4)], "clock_gettime@vdso": []})
    bare.cases[0] = replace(bare.cases[0], paths=(), functions=())
    one, two = tmp_path / "bare.json", tmp_path / "imported.json"
    write_recording(bare, one)
    write_recording(imported({"getpid": 100.0}, arch="ia64"), two)
    assert "No path of it was recorded" in Page([one]).text
    assert "Absent: interval" in Page([two]).text
    compared = Page([one, NEW])
    assert "the functions are not known" in compared.text


@pytest.mark.slow
def test_ten_thousand_rows_are_a_page(tmp_path: Path, of_kind: dict[str, list[Path]]) -> None:
    file = tmp_path / "long.json"
    document = json.loads(of_kind["log"][0].read_text())
    point = next(one for one in document["points"] if one["value"] is not None)
    document["points"] = [{**point, "place": n, "value": 200 + n % 7} for n in range(10_000)]
    file.write_text(json.dumps(document | {"kernels": 10_000, "changes": []}))
    text = report([file])
    assert text.count("<tr>") > 10_000 and len(text) < 8 << 20
    # Thousands of dots would be drawn over each other.
    assert text.count("<circle") == 0
    document = json.loads(of_kind["series"][0].read_text())
    first, last = document["rows"][0], document["rows"][-1]
    document["rows"] = [first, *({**last, "patch": n} for n in range(1, 10_001))]
    document["totals"] = {key: 10_000 * one["delta"] for key, one in last["cases"].items()}
    file.write_text(json.dumps(document))
    text = report([file])
    assert text.count("<details id=") == 10_000 and text.count('class="curve"') >= 1
    assert len(text) < 6 * file.stat().st_size


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        *(("log", "old", value) for value in ("1e999", "-1e999")),
        *(("bisection", "seconds", value) for value in ("1e999", "-1e999")),
        *(("comparison", "seed", value) for value in ("1e999", "[-1e999]")),
    ],
)
def test_an_infinite_number_is_a_sentence(
    tmp_path: Path, of_kind: dict[str, list[Path]], kind: str, key: str, value: str
) -> None:
    document = json.loads(of_kind[kind][0].read_text())
    document.pop("checksum", None)
    text, changed = re.subn(rf'"{key}": -?[0-9.]+', f'"{key}": {value}', json.dumps(document))
    assert changed
    file = tmp_path / "page.json"
    file.write_text(text)
    with pytest.raises(RecordingError, match="finite"):
        report([file])


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        ('{"schema": "kentry/annotation/1"}', UserError, "no page"),
        ('{"schema": "kentry/series/2"}', RecordingError, "reads up to"),
        ('{"schema": "kentry/series/1"}', RecordingError, "not a whole series"),
        ('{"schema": "other"}', RecordingError, "not a recording"),
        ("[]", RecordingError, "not a recording"),
        ("<html>", RecordingError, "cut short"),
    ],
)
def test_what_is_no_result_is_a_sentence(
    content: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(error, match=words):
        report([file])


Edit = Callable[[Any], object]


def put(*keys: str | int, value: object = None) -> Edit:
    """Puts a value where the keys lead into a document; None takes out what stands there."""

    def edit(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        if value is None:
            del document[keys[-1]]
        else:
            document[keys[-1]] = value

    return edit


def beyond_bounds(document: Any) -> None:
    for point, value in zip(document["points"], (1e308, -1e308, 1e308), strict=False):
        point["value"] = value
    document["changes"][0] |= {"old": 1, "delta": 10**400, "functions": []}


PATHS = ("modal_paths", "cases", "getppid")


@pytest.mark.parametrize(
    ("golden", "edit", "words"),
    [
        ("ablate", put("base", "kernel", "origin"), "lacks 'origin'"),
        ("ablate", put("base", "kernel", "origin", value=7), "cannot be true"),
        ("bisect", put("origin", "tree"), "lacks 'tree'"),
        ("diff-verdicts", put("old", "kernel", "origin", value=[7]), "cannot be true"),
        ("series", put("tool", "name"), "lacks 'name'"),
        ("log", beyond_bounds, "cannot be"),
        ("vector-replay-2", put("sweeps", 0, "cost_per_call", 0), "vector replay"),
        *(
            ("diff of two files", put(*PATHS, *place, value=10**12), "beyond the code")
            for place in (("old", 0, 1), ("rows", 0, 9), ("rows", 0, 8))
        ),
    ],
)
def test_what_a_kind_of_document_lacks_or_cannot_have_is_said(
    golden: str, edit: Edit, words: str, tmp_path: Path, saved_comparison: str
) -> None:
    file = GOLDEN / f"{golden}.json"
    document = json.loads(file.read_bytes() if file.exists() else saved_comparison)
    edit(document)
    (tmp_path / "x.json").write_text(json.dumps(document))
    with pytest.raises(RecordingError, match=words):
        report([tmp_path / "x.json"])


@pytest.fixture
def saved_comparison(capsys: pytest.CaptureFixture[str]) -> str:
    """The JSON of a comparison, with its paths."""
    assert main(["diff", str(OLD), str(NEW), "--json"]) == 0
    return capsys.readouterr().out


def test_a_page_that_cannot_be_written_is_a_mistake_before_files_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for output in (tmp_path, tmp_path / "no" / "x.html"):
        assert main(["report", "absent.json", "-o", str(output)]) == 2
        assert "absent.json" not in capsys.readouterr().err
    assert main(["report", str(NEW)]) == 2
    assert main(["report", str(tmp_path / "absent.json"), "-o", str(tmp_path / "x.html")]) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_saved_json_is_that_of_the_recordings(
    tmp_path: Path, of_kind: dict[str, list[Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its charts, paths and distributions are in the file, which is smaller than the recordings."""
    for old, new in ((OLD, NEW), of_kind["timed-comparison"]):
        assert main(["diff", str(old), str(new), "--json"]) == 0
        saved = tmp_path / "saved.json"
        saved.write_text(capsys.readouterr().out)
        assert report([saved]) == report([old, new])
        assert saved.stat().st_size < old.stat().st_size + new.stat().st_size
    assert report([OLD, NEW]).count('<svg class="icicle"') == 2


def test_times_have_their_distribution_and_floor(tmp_path: Path) -> None:
    file = tmp_path / "timed.json"
    write_recording(timed({"getppid": 80.0}), file)
    text = report([file])
    assert text.count('class="bin"') >= 8
    assert text.count('class="floor"') == 1
    heights = [int(one) for one in re.findall(r"(\d+) of 80 processes", text)]
    assert sum(heights) == 80


def test_the_verdicts_of_a_program_on_two_kernels_stand_once(
    of_kind: dict[str, list[Path]],
) -> None:
    assert Page(of_kind["workload-comparison"]).text.count("of 33 kinds of kernel entry") == 1


def test_a_workload_has_each_kind_and_its_functions_in_tables_and_in_the_chart() -> None:
    page = Page([GOLDEN / "workload.json"])
    workload = read_workload(GOLDEN / "workload.json")
    numbers = [text for _, text in page.cells]
    for row in workload.rows:
        at = numbers.index(row.name)
        assert numbers[at + 1 : at + 3] == [str(row.calls or ""), str(row.instructions)]
    # Of the first row, the largest functions and the sum of the others.
    kind = workload.rows[0]
    shown = kind.functions[:40]
    at = numbers.index("unmap_page_range")
    tables = numbers[at : at + 4 * 41]
    assert tables[1::4] == [
        *(str(count) for _, count in shown),
        str(kind.instructions - sum(count for _, count in shown)),
    ]
    text = report([GOLDEN / "workload.json"])
    drawn = re.findall(r'class="frame (\w+)" x="([\d.]+)%" y="(\d+)" width="([\d.]+)%"', text)
    assert {kind for kind, *_ in drawn} == {"user", "syscall", "fault", "other"}
    # Each row of the chart is as wide as all instructions, but for user code's functions.
    user = 100 * workload.of("user") / workload.instructions
    for y, missing in (("0", 0.0), ("20", 0.0), ("40", user)):
        wide = sum(float(width) for _, _, place, width in drawn if place == y)
        assert wide == pytest.approx(100 - missing, abs=1.5)
    assert workload.slices
    layers = re.findall(r'<path class="layer (\w+)" d="M64.0,([\d.]+)', text)
    assert [kind for kind, _ in layers] == ["user", "syscall", "fault", "other"]
    # The last layer ends at 100 %, the top; each slice can be pointed at.
    assert layers[-1][1] == "18.0"
    assert text.count('<rect class="slice"') == len(workload.slices.spent["user"])
    titles = set(re.findall(r"<title>(.*?): \d+ instructions", text))
    assert {"system calls", "execve", "unmap_page_range"} <= titles


@pytest.mark.parametrize(
    ("origin", "tag"),
    [
        ({"kind": "debian", "version": "6.1.192-1"}, "v6.1.192"),
        ({"kind": "source", "version": "7.3~rc4-1~exp1"}, "v7.3-rc4"),
        ({"kind": "debian", "version": "6.12-1"}, "v6.12"),
        ({"kind": "tree", "commit": "0" * 40}, ""),
        ({"kind": "deb", "version": "6.8.0-45.45"}, ""),
        ({"kind": "debian", "version": '6.1"><b>-1'}, ""),
        ({}, ""),
    ],
)
def test_only_linuxs_own_versions_have_source_to_lead_to(origin: dict[str, str], tag: str) -> None:
    side = recording({"getppid": [("el0_svc", 312)]}, kernel={"origin": origin})
    assert " ".join(versions(side)) == tag
    assert " ".join(versions(side, side)) == " ".join([tag] * 2).strip()
