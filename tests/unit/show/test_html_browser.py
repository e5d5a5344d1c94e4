# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages in a real browser: Debian's Chromium, headless, with its network cut off."""

import json
import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from kentry.cli import main
from kentry.commands.pages import report
from kentry.results.recording import write_recording
from tests.browser import OpenFile, open_all, opened, violations
from tests.browser import browser as browser
from tests.browser import open_file as open_file
from tests.builders import recording
from tests.unit.show.pages import GOLDEN, NEW, files, hostile
from tests.unit.show.test_html import KINDS_HERE

# A browser takes seconds to start.
pytestmark = pytest.mark.slow

KINDS = (*KINDS_HERE, "replay")
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# What each kind draws: charts with axes, and pictures of paths.
CHARTS = {
    "recording": (0, 2),
    "two-recordings": (0, 2),
    "series": (2, 0),
    "bisection": (1, 0),
    "log": (1, 0),
    "workload": (1, 1),
    "timed": (2, 0),
    "timed-comparison": (5, 0),
    "replay": (2, 0),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind, and one of each with hostile names."""
    folder = tmp_path_factory.mktemp("pages")
    found = files(folder)
    # Of two traces; a sweep of times, too, whose axis has units.
    document = json.loads((GOLDEN / "vector-replay-2.json").read_text())
    counts = json.dumps(document["sweeps"][0])
    times = json.loads(counts, parse_int=lambda digits: int(digits) * 10**7)
    document["sweeps"].append({**times, "family": "timeout-entry"})
    found["replay"] = [folder / "replay.json"]
    found["replay"][0].write_text(json.dumps(document))
    written = {}
    for kind, inputs in found.items():
        written[kind] = folder / f"{kind}.html"
        written[kind].write_text(report(inputs))
    return written


@pytest.fixture
def open_kind(open_file: OpenFile, pages: dict[str, Path]) -> OpenFile:
    """Opens the page of a kind."""
    return lambda kind, **options: open_file(pages[kind], **options)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_drawn_and_nothing_complains(kind: str, open_kind: OpenFile) -> None:
    page = open_kind(kind)
    open_all(page)
    sizes = page.evaluate(
        """[...document.querySelectorAll("svg.chart, svg.icicle")].map((one) => {
             const box = one.getBoundingClientRect();
             return [one.classList[0], box.width, box.height, one.querySelectorAll("*").length];
           })"""
    )
    assert all(wide > 200 and high >= 20 and parts > 2 for _, wide, high, parts in sizes)
    if kind in CHARTS:
        drawn = [name for name, *_ in sizes]
        assert (drawn.count("chart"), drawn.count("icicle")) == CHARTS[kind]
    # No text of a chart is cut off at its edges.
    outside = page.evaluate(
        """[...document.querySelectorAll("svg.chart")].flatMap((chart) => {
             const { left, right } = chart.getBoundingClientRect();
             return [...chart.querySelectorAll("text")].filter((text) => {
               const box = text.getBoundingClientRect();
               return box.left < left - 1 || box.right > right + 1;
             }).map((text) => text.textContent);
           })"""
    )
    assert outside == []
    # Wide tables scroll by themselves; the page does not.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        colors = page.evaluate(
            "['color', 'backgroundColor'].map((one) => getComputedStyle(document.body)[one])"
        )
        text, back = (sum(map(int, re.findall(r"\d+", one)[:3])) for one in colors)
        assert (text < back) == (scheme == "light")


@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing_that_a_reader_cannot_use(kind: str, open_kind: OpenFile) -> None:
    """On a desk and on a phone; a table that scrolls is reached by keyboard."""
    for width, scheme in zip((1280, 400), SCHEMES, strict=True):
        screen = {"width": width, "height": 900}
        assert violations(open_kind(kind, viewport=screen, color_scheme=scheme)) == []


@pytest.mark.parametrize("kind", ["two-recordings", "workload"])
def test_text_in_every_frame_can_be_read(kind: str, open_kind: OpenFile) -> None:
    """WCAG asks for a contrast of 4.5 to 1; axe-core looks at HTML and not into drawings."""
    for scheme in SCHEMES:
        page = open_kind(kind, color_scheme=scheme)
        open_all(page)
        worst = page.evaluate(
            """(() => {
              const numbers = (color) => color.match(/[0-9.]+/g).slice(0, 3)
                .map((one) => Number(one) * (color.startsWith("color(") ? 255 : 1));
              const bright = (color) => {
                const [r, g, b] = numbers(color).map((one) => {
                  const part = one / 255;
                  return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
                });
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const contrast = (one, other) => {
                const [low, high] = [bright(one), bright(other)].sort((a, b) => a - b);
                return (high + 0.05) / (low + 0.05);
              };
              return Math.min(...[...document.querySelectorAll("svg.frame:not(.part)")].map((one) =>
                contrast(getComputedStyle(one.querySelector("rect")).fill,
                         getComputedStyle(one.querySelector("text")).fill)));
            })()"""
        )
        assert worst >= 4.5


def test_a_patch_opens_by_mouse_and_by_keyboard(open_kind: OpenFile) -> None:
    page = open_kind("series")
    is_open = "document.getElementById('patch-1').open"
    assert not page.evaluate(is_open)
    page.click("svg.chart a[href='#patch-1'] rect")
    assert page.evaluate(is_open)
    assert page.evaluate("document.activeElement.parentElement.id") == "patch-1"
    page.keyboard.press("Enter")
    assert not page.evaluate(is_open)
    page.focus("table a[href='#patch-1']")
    page.keyboard.press("Enter")
    assert page.evaluate(is_open)


def test_every_stop_of_the_keyboard_is_seen_and_has_a_name(open_kind: OpenFile) -> None:
    page = open_kind("two-recordings")
    seen = []
    for _ in range(200):
        page.keyboard.press("Tab")
        stop = page.evaluate(
            """(() => {
              const one = document.activeElement;
              if (one === document.body) return null;
              const box = one.getBoundingClientRect();
              return {
                tag: one.tagName,
                name: one.getAttribute("aria-label") || (one.labels?.[0] || one).textContent.trim(),
                seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight,
                outline: getComputedStyle(one).outlineStyle,
              };
            })()"""
        )
        if stop is None:
            break
        seen.append(stop)
    tags = [one["tag"] for one in seen]
    assert {"A", "SUMMARY", "svg", "BUTTON"} <= set(tags)
    assert all(one["name"] and one["seen"] and one["outline"] != "none" for one in seen)


def test_a_path_is_walked_with_arrows_and_widened_with_enter(open_kind: OpenFile) -> None:
    page = open_kind("recording")
    page.focus("svg.icicle")
    chosen = "document.querySelector('svg.frame.chosen title')?.textContent"
    caption = "document.querySelector('figcaption').textContent"
    first = page.evaluate(caption)
    for key, part in (("ArrowDown", "entry"), ("ArrowRight", "dispatch"), ("ArrowDown", "its own")):
        page.keyboard.press(key)
        assert part in page.evaluate(chosen)
        assert page.evaluate(caption) == page.evaluate(chosen)
    page.keyboard.press("Enter")
    wide = page.get_attribute("svg.frame.chosen", "width")
    assert wide
    assert float(wide.rstrip("%")) == pytest.approx(100)
    page.keyboard.press("Escape")
    assert page.evaluate(chosen) is None
    assert page.evaluate(caption) == first


def test_a_comparison_is_sorted_by_size_filtered_and_says_so(open_kind: OpenFile) -> None:
    phone = {"width": 400, "height": 800}
    page = open_kind("two-recordings", viewport=phone)
    rows = page.locator("table.filters tbody tr")

    def names() -> list[str]:
        return page.locator("table.filters tbody tr:visible > :first-child").all_inner_texts()

    said = "document.getElementById('said').textContent"
    assert names() == ["invalid", "getppid", "clock_gettime@vdso"]
    # The verdict is on the screen of a phone.
    for at in range(rows.count()):
        box = rows.nth(at).locator("td").first.bounding_box()
        assert box and box["x"] + box["width"] <= 400
    page.check("text=only changed")
    assert names() == ["invalid", "getppid"]
    assert page.evaluate(said) == "2 of 3 rows"
    page.fill("table.filters >> xpath=../preceding-sibling::div[1]//input[@type='search']", "getp")
    assert names() == ["getppid"]
    page.fill("table.filters >> xpath=../preceding-sibling::div[1]//input[@type='search']", "")
    page.click("table.filters th:has-text('case') button")
    assert names() == ["getppid", "invalid"]
    assert "case" in page.evaluate(said)
    page.click("table.filters th:has-text('change') button")
    assert names() == ["invalid", "getppid"]
    assert page.get_attribute("table.filters th[aria-sort]", "aria-sort") == "descending"


def test_a_series_shows_the_patches_that_change_and_keeps_notes_below_them(
    open_kind: OpenFile,
) -> None:
    page = open_kind("series")

    def shown() -> list[str]:
        return page.locator("table.filters tbody tr:visible").all_inner_texts()

    whole = shown()
    page.check("text=only changed")
    changed = shown()
    assert 0 < len(changed) < len(whole) and set(changed) < set(whole)
    # The baseline stays, and what does not build is no patch without a change.
    assert whole[0] == changed[0] and "Baseline" in whole[0]
    reasons = [row for row in whole if "does not build" in row]
    assert reasons and set(reasons) <= set(changed)
    page.uncheck("text=only changed")
    page.click("table.filters th:has-text('kernel instructions') button")
    above = {row: whole[whole.index(row) - 1] for row in reasons}
    rows = shown()
    assert rows != whole and {row: rows[rows.index(row) - 1] for row in reasons} == above


def test_two_paths_are_widened_searched_and_merged_together(open_kind: OpenFile) -> None:
    page = open_kind("two-recordings")
    chart = page.locator("svg.icicle").first
    chart.focus()
    chosen = "document.querySelector('svg.frame.chosen title')?.textContent || ''"
    seen = []
    for _ in range(3):
        page.keyboard.press("n")
        seen.append(page.evaluate(chosen))
    assert len(set(seen)) == 3
    assert all("the function" in one for one in seen)
    page.keyboard.press("p")
    assert page.evaluate(chosen) == seen[1]
    page.keyboard.press("Escape")
    widths = """(name) => [...document.querySelector("svg.icicle").querySelectorAll("svg.frame")]
        .filter((one) => one.querySelector("title").textContent.startsWith(name + ":"))
        .map((one) => [one.classList[1], parseFloat(one.getAttribute("width"))])"""
    before = page.evaluate(widths, "el0_svc")
    chart.locator("svg.frame.new:has(title:text('el0_svc:'))").first.click()
    after = page.evaluate(widths, "el0_svc")
    # Both paths are widened, on one scale; the longer call fills the chart.
    assert [side for side, _ in after] == ["old", "new"]
    assert max(wide for _, wide in after) == pytest.approx(100)
    assert after[0][1] / after[1][1] == pytest.approx(before[0][1] / before[1][1], rel=0.01)
    page.keyboard.press("Escape")
    assert page.evaluate(widths, "el0_svc") == before
    page.keyboard.press("/")
    page.keyboard.type("el0_svc")
    hits = page.locator("svg.frame.hit").count()
    assert hits >= 4
    assert page.evaluate("document.getElementById('said').textContent").startswith(str(hits))
    # Merged, a row is as wide as before, and a function is there once below each caller.
    total = """() => [...document.querySelector("svg.icicle").querySelectorAll("svg.frame.new")]
        .reduce((sum, one) => sum + parseFloat(one.getAttribute("width")), 0)"""
    apart = page.evaluate(total)
    chart.focus()
    page.keyboard.press("m")
    assert page.evaluate(total) == pytest.approx(apart, rel=1e-3)
    page.keyboard.press("m")
    assert page.evaluate(widths, "el0_svc") == before


def test_a_table_sorts_by_its_headings_and_its_sum_stays_below(open_kind: OpenFile) -> None:
    page = open_kind("workload", viewport={"width": 400, "height": 800})
    head = "table.sorts thead th"

    def column(at: int) -> list[str]:
        return page.locator(f"table.sorts tbody tr > :nth-child({at})").all_inner_texts()

    before = column(1)
    for at in (2, 3, 4, 5):
        page.click(f"{head}:nth-child({at}) button")
        falling = [float(text.strip("<% ") or -1) for text in column(at)]
        assert falling == sorted(falling, reverse=True)
        assert len(set(falling)) > 3
        page.focus(f"{head}:nth-child({at}) button")
        page.keyboard.press("Enter")
        assert [float(text.strip("<% ") or -1) for text in column(at)] == sorted(falling)
        assert page.get_attribute(f"{head}[aria-sort]", "aria-sort") == "ascending"
    page.click(f"{head}:nth-child(1) button")
    assert column(1) == sorted(before)
    assert page.inner_text("table.sorts tfoot th") == "all"
    # The name of a kind leads to its functions.
    page.click("table.sorts tbody a >> text=execve")
    page.wait_for_selector("details[open] > :focus")


def test_the_tables_of_a_workload_stand_without_scripts(open_kind: OpenFile) -> None:
    page = open_kind("workload", java_script_enabled=False)
    assert page.locator("table.sorts tbody tr").count() > 30
    assert page.locator("table.sorts button").count() == 0


def test_the_json_can_be_saved(open_kind: OpenFile, tmp_path: Path) -> None:
    page = open_kind("log")
    with page.expect_download() as download:
        page.click("button.save")
    file = tmp_path / "saved.json"
    download.value.save_as(file)
    assert json.loads(file.read_text())["schema"] == "kentry/log/1"
    # What was saved is a file like any other.
    assert main(["report", str(file), "-o", str(tmp_path / "again.html")]) == 0


@pytest.mark.parametrize("kind", [one for one in KINDS if not one.startswith("t")])
def test_hostile_names_do_not_execute(
    kind: str, browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    inputs = pages[kind].with_suffix(".json")
    file = tmp_path / "<img src=x onerror=alert(1)>.json"
    file.write_text(hostile(kind, inputs if inputs.exists() else NEW))
    output = tmp_path / "hostile.html"
    output.write_text(report([file]))
    page, complaints = opened(browser, output)
    open_all(page)
    page.mouse.move(300, 300)
    page.wait_for_timeout(50)
    assert page.title() != "taken"
    assert page.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
    assert page.evaluate("document.scripts.length") == 2
    assert complaints == []
    # The policy holds even for a script that got into the page.
    page.evaluate(
        """document.body.insertAdjacentHTML("beforeend",
             "<img src=x onerror=\\"document.title='taken'\\">")"""
    )
    page.wait_for_timeout(50)
    assert page.title() != "taken"
    page.context.close()


def test_a_name_written_from_right_to_left_leaves_the_numbers_beside_it_in_place(
    open_file: OpenFile, tmp_path: Path
) -> None:
    name = "\u05d6\u05de\u05df"
    sides = [recording({name: [("a", count)]}) for count in (310, 312)]
    for number, side in enumerate(sides):
        write_recording(side, tmp_path / f"{number}.json")
    (tmp_path / "page.html").write_text(report([tmp_path / "0.json", tmp_path / "1.json"]))
    page = open_file(tmp_path / "page.html")
    # Where a name is followed by a colon and more, in one text, the name's end is left of the rest.
    places = page.evaluate(
        """(name) => {
             const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
             const places = [];
             for (let text; (text = texts.nextNode()); ) {
               const at = text.data.indexOf(name), rest = text.data.search(/[0-9]/);
               if (at < 0 || rest < at) continue;
               const [first, second] = [at, rest].map((start) => {
                 const range = document.createRange();
                 range.setStart(text, start);
                 range.setEnd(text, start + 1);
                 return range.getBoundingClientRect();
               });
               if (first.width && first.top === second.top) places.push([first.left, second.left]);
             }
             return places;
           }""",
        name,
    )
    assert places and all(of_name < of_number for of_name, of_number in places), places


def test_a_reason_shows_its_own_changes_alone(
    open_file: OpenFile, pages: dict[str, Path], tmp_path: Path
) -> None:
    document = json.loads(pages["path-diff"].with_suffix(".json").read_text())
    changed = [row for row in document["cases"][0]["rows"] if row["change"] == "added"]
    for row, reason in zip(changed, ("ftrace", "static key", "ftrace"), strict=False):
        row["reason"] = reason
    (tmp_path / "path.json").write_text(json.dumps(document))
    (tmp_path / "path.html").write_text(report([tmp_path / "path.json"]))
    page = open_file(tmp_path / "path.html")
    rows = page.locator("table.paths tbody tr:visible:not(.head)")
    every = rows.count()
    button = page.locator(".tools button[aria-pressed]").first
    name, _, count = button.inner_text().rpartition(" ")
    button.click()
    assert (name, count) == ("ftrace", "(2)")
    assert rows.count() == 2 < every
    assert all(name in text for text in rows.all_inner_texts())
    page.click(".tools button:has-text('all')")
    assert rows.count() == every


def test_a_page_prints(open_kind: OpenFile) -> None:
    page = open_kind("two-recordings", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
    assert not page.is_visible("button.save")
    # Paper has no folds: each chart and each caveat is on it.
    for one in page.locator("svg.icicle, details p").all():
        assert one.is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_a_function_leads_to_the_version_of_linux_that_has_it(
    open_file: OpenFile, tmp_path: Path
) -> None:
    """Debian's 6.1.0-56 is Linux 6.1.192; a function that went is in the old version alone."""
    golden, file = Path(__file__).parents[2] / "golden", tmp_path / "page.html"
    text = report([golden / "arm64-6.1.json", golden / "arm64-6.12.json"])
    went = re.sub("(<code>do_el0_svc</code></th><td>20</td>)<td>12</td>", r"\1<td>-</td>", text)
    assert went != text
    file.write_text(went)
    page = open_file(file)
    links = page.evaluate(
        "[...document.querySelectorAll('.functions th a:first-child')].map((one) => one.href)"
    )
    site = "https://elixir.bootlin.com/linux"
    assert {
        f"{site}/v6.12.117/A/ident/el0_svc",
        f"{site}/v6.1.192/A/ident/do_el0_svc",
    } <= set(links)
