# SPDX-License-Identifier: GPL-2.0-or-later
"""Charts as SVG, inside a page or alone; colours are classes of charts.css.

Markup.format() escapes every text.
"""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import accumulate, groupby
from typing import Literal, NamedTuple

from markupsafe import Markup

from kentry.arch import Arch
from kentry.path.calls import parts, spans, split_calls
from kentry.path.symbols import base_name
from kentry.results.comparison import Distribution, FunctionDelta, TimedComparison
from kentry.results.recording import Instruction
from kentry.show.numbers import change_with_interval, number, share

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 720, 64, 24, 18, 34, 240
# Of a font of 12 pixels, a letter's width at most, about.
_LETTER = 7
_ROW = 20
# Between two paths on one axis.
_AXIS = 32
# Shares of a path's largest change, from which on a change has a darker colour.
_LEVELS = (0.1, 0.4)
# What is too narrow to be seen is left out: at most this many frames are drawn.
_FRAMES = 600
# More bars have no number above them, and not each has a label.
_NUMBERED = 24
# Of more points only those are dots that are marked.
_DOTS = 400
# The columns of names beside intervals, and the characters of a name.
_NAMES, _MOST_LABEL = 200, 28
_TICKS = 6

_SVG = Markup(
    '<svg class="chart" viewBox="0 0 {} {}" role="{}" aria-label="{}"><title>{}</title>{}</svg>'
)
_LINE = Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
_RECT = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>')
_CIRCLE = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>')
_TEXT = Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>')
_TITLE = Markup("<title>{}</title>")
_PATH = Markup('<path class="{}" d="{}"/>')
_LINK = Markup('<a href="#{}"><title>{}</title>{}</a>')
_FRAME = Markup(
    '<svg class="frame {}" x="{:.2f}%" y="{}" width="{:.2f}%"><title>{}</title><rect/>{}'
    "<text>{}</text></svg>"
)
# Colours are not all that tells more from fewer: these strips are hatched.
_STRIP = Markup("<rect/>")
_SIDE = Markup('<text class="side" x="3" y="{}">{}</text>')
_ICICLE = Markup(
    '<svg class="icicle" height="{}" role="application" tabindex="0"'
    ' aria-roledescription="call chart" aria-label="{}"><title>{}</title>{}</svg>'
)

# Above charts which page.js walks; of paths, and of anything.
ICICLE_KEYS = (
    "Click a frame to widen it. With the keyboard: arrows move, Enter widens, Escape shows all,"
    " / searches, m merges the calls of a function."
)
ICICLE_HELP = (
    f"Width is instructions, in the order of execution; a call is below its caller. {ICICLE_KEYS}"
)
MIRROR_HELP = (
    "The old path is above the axis, the new one below it, on one scale; each call lies farther"
    f" from the axis than its caller. Darker is a larger change. {ICICLE_KEYS} n and p go to the"
    " next and the previous change."
)
# The colours of a path's calls beside another kernel's.
CHANGE_KINDS = {
    "added": "only new",
    "worse": "more",
    "same": "same number",
    "better": "fewer",
    "removed": "only old",
}


class Frame(NamedTuple):
    """A call with what it calls; depth 0 is the row of parts, `kind` a class of colour.

    `delta` is by how much its function changed in the whole path.
    """

    name: str
    first: int
    size: int
    depth: int
    kind: str
    title: str
    delta: int = 0


def frames(
    code: Sequence[Instruction], arch: Arch, changed: Sequence[FunctionDelta] | None = None
) -> list[Frame]:
    """The parts of a path, and below them its calls, which say how the functions changed."""
    deltas = {
        name: row
        for row in changed or ()
        for name, _ in ((*row.renamed.old, *row.renamed.new) if row.renamed else ((row.name, 0),))
    }
    names = [
        part.name
        for call in split_calls(code)
        for part in parts(call, arch)
        for _ in part.instructions
    ]
    drawn, total, first = [], len(code), 0
    for part, same in groupby(names):
        count = len(list(same))
        title = f"{part}: {count} of {total} instructions ({share(count, total)})"
        kind = "part" if changed is not None else f"part {part}"
        drawn.append(Frame(part, first, count, 0, kind, title))
        first += count
    calls = spans(code, arch)
    most = max((abs(row.delta) for row in deltas.values()), default=0)
    own = Counter(calls.inner)
    depths: list[int] = []
    for index, call in enumerate(calls.spans):
        depths.append(1 if call.caller is None else depths[call.caller] + 1)
        size, kind = call.end - call.start, names[call.start]
        title = f"{call.function}: {size} of {total} ({share(size, total)})"
        title += f", {own[index]} its own, in {kind}"
        change = 0
        if changed is not None:
            delta, kind = deltas.get(base_name(call.function)), "same"
            if delta and delta.delta:
                change, kind = delta.delta, "worse" if delta.delta > 0 else "better"
                if not (delta.old and delta.new):
                    kind = "removed" if delta.old else "added"
                kind += f" level-{bisect(_LEVELS, abs(change) / most) + 1}"
                title += f"; the function {delta.old} \u2192 {delta.new} ({change:+d})"
        drawn.append(Frame(call.function, call.start, size, depths[index], kind, title, change))
    return sorted(drawn, key=lambda frame: (frame.depth, frame.first))


def icicle(
    frames: Sequence[Frame], scale: int, label: str, above: Sequence[Frame] = ()
) -> tuple[Markup, str]:
    """Draws a path, `scale` instructions wide, and `above` its axis another one upside down.

    Widths are in per cent, so that a script can zoom.  Also returns how many small calls it left
    out, a clause or "".
    """
    boxes, left_out, top = list[Markup](), 0, 0
    for side, own in (("old", above), ("new", frames)):
        # Of calls that are equally small the first ones are drawn.
        kept = sorted(own, key=lambda frame: -frame.size)[:_FRAMES]
        left_out += len(own) - len(kept)
        rows = 1 + max((frame.depth for frame in kept), default=-1)
        for frame in sorted(kept, key=lambda frame: (frame.depth, frame.first)):
            x, wide = 100 * frame.first / scale, 100 * frame.size / scale
            y = top + _ROW * (rows - 1 - frame.depth if side == "old" else frame.depth)
            name = f"{frame.name} {frame.delta:+d}" if frame.delta else frame.name
            kind = f"{side} {frame.kind}" if above else frame.kind
            strip = _STRIP if frame.delta else ""
            boxes.append(_FRAME.format(kind, x, y, wide, frame.title, strip, name))
        top += _ROW * rows
        if side == "old" and above:
            boxes += [_SIDE.format(top + 11, "\u2191 old"), _SIDE.format(top + 27, "\u2193 new")]
            top += _AXIS
    note = f"; {left_out} small calls are not drawn" if left_out else ""
    return _ICICLE.format(top, label, label, Markup("").join(boxes)), note


def timeline(
    layers: Mapping[str, Sequence[int]], size: int, titles: Sequence[str], label: str
) -> Markup:
    """Each slice of a run as a column: the share of each layer, a class of colour."""
    columns = list(zip(*layers.values(), strict=True))
    edges = [min(size * place, sum(map(sum, columns))) for place in range(len(columns) + 1)]
    plot = _Plot(label, 160)
    across = _Axis(0, edges[-1], _LEFT, _WIDTH - _RIGHT)
    up = _Axis(0, 100, plot.bottom, _TOP)
    plot.y_axis(up)
    plot.x_axis((across.at(tick), number(round(tick))) for tick in across.ticks(whole=True))
    below = [float(plot.bottom)] * len(columns)
    for depth, kind in enumerate(layers):
        above = [up.at(100 * sum(one[: depth + 1]) / sum(one)) for one in columns]
        # Along the tops from left to right, and along the bottoms back.
        tops, bottoms = (
            [(across.at(edges[place + end]), y) for place, y in enumerate(levels) for end in (0, 1)]
            for levels in (above, below)
        )
        plot.path(f"layer {kind}", [*tops, *reversed(bottoms)], "L{:.1f},{:.1f}")
        below = above
    for place, title in enumerate(titles):
        left = across.at(edges[place])
        wide = across.at(edges[place + 1]) - left
        plot.rect("slice", left, _TOP, wide, plot.bottom - _TOP, title)
    plot.unit("instructions since the start")
    plot.add(_TEXT, "caption", 4, _TOP - 6, "% of the instructions")
    return plot.drawing()


class Point(NamedTuple):
    """A point or bar; `mark` is a class: change, point, recommended or unknown; `link` an id."""

    x: float
    y: float
    title: str
    mark: str = "point"
    link: str = ""
    label: str = ""


class _Axis(NamedTuple):
    """Values from `low` to `high` as places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, *, whole: bool = False) -> list[float]:
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        size = 10 ** math.floor(math.log10(span / 4))
        step = next(factor * size for factor in (1, 2, 5, 10) if span / (factor * size) <= _TICKS)
        if whole:
            step = max(1, round(step))
        first = math.ceil(self.low / step)
        return [multiple * step for multiple in range(first, math.floor(self.high / step) + 1)]


class _Plot:
    """A chart with axes, whose parts are added in the order in which they are drawn."""

    def __init__(self, label: str, height: int = _HEIGHT) -> None:
        self.label, self.height, self.bottom = label, height, height - _BOTTOM
        self.parts: list[Markup] = []

    def add(self, shape: Markup, *values: object) -> None:
        self.parts.append(shape.format(*values))

    def rect(self, kind: str, x: float, y: float, wide: float, tall: float, title: str) -> None:
        self.add(_RECT, kind, x, y, wide, tall, _TITLE.format(title) if title else "")

    def path(self, kind: str, points: Sequence[tuple[float, float]], join: str) -> None:
        text = "".join(join.format(*point) for point in points[1:])
        first = "M{:.1f},{:.1f}".format(*points[0])
        self.add(_PATH, kind, first + text)

    def whisker(self, kind: str, ends: Sequence[float], y: float) -> None:
        self.add(_LINE, f"whisker {kind}", ends[0], y, ends[1], y)
        for end in ends:
            self.add(_LINE, f"whisker {kind}", end, y - 4, end, y + 4)

    def link(self, since: int, to: str, title: str) -> None:
        """Makes the parts from `since` on a link."""
        self.parts[since:] = [_LINK.format(to, title, Markup("").join(self.parts[since:]))]

    def x_axis(self, ticks: Iterable[tuple[float, str]], *, grid: bool = False) -> None:
        """Draws ticks with their texts; a `grid` goes up to the top."""
        for x, text in ticks:
            if grid:
                self.add(_LINE, "grid", x, _TOP, x, self.bottom)
            else:
                self.add(_LINE, "tick", x, self.bottom, x, self.bottom + 4)
            # The last text may be wider than the margin.
            if x + _LETTER * len(text) / 2 > _WIDTH:
                self.add(_TEXT, "end", _WIDTH - 2, self.bottom + 16, text)
            else:
                self.add(_TEXT, "middle", x, self.bottom + 16, text)

    def y_axis(self, axis: _Axis, *, whole: bool = False) -> None:
        for tick in axis.ticks(whole=whole):
            self.add(_LINE, "grid", _LEFT, axis.at(tick), _WIDTH - _RIGHT, axis.at(tick))
            self.add(_TEXT, "end", _LEFT - 6, axis.at(tick) + 4, f"{tick:.6g}")

    def unit(self, text: str) -> None:
        self.add(_TEXT, "end caption", _WIDTH - _RIGHT, self.height - 4, text)

    def drawing(self) -> Markup:
        body = Markup("").join(self.parts)
        # An image is read as one thing, and its links would be lost.
        role = "group" if "<a " in body else "img"
        return _SVG.format(_WIDTH, self.height, role, self.label, self.label, body)


def _extent(values: Iterable[float], room: float, nothing: float = 0) -> tuple[float, float]:
    """The ends of an axis with `room`, a share, beside the values; `nothing` is their size if 0."""
    edges = list(values)
    low, high = min(edges), max(edges)
    wide = (high - low or nothing or 1) * room
    return low - wide, high + wide


def waterfall(base: int, bars: Sequence[Point], label: str) -> Markup:
    """Returns the count from the base to the last row: a bar a step, joined by lines."""
    totals = list(accumulate((round(bar.y) for bar in bars), initial=base))
    plot = _Plot(label)
    low, high = _extent(totals, 0.15)
    up = _Axis(low, high, plot.bottom, _TOP)
    wide = (_WIDTH - _LEFT - _RIGHT) / (len(bars) + 2)

    def column(step: int, start: float, end: float, kind: str, title: str) -> None:
        tall = max(abs(start - end), 2)
        plot.rect(kind, _LEFT + wide * (step + 0.1), min(start, end), wide * 0.8, tall, title)

    def name(step: int, text: str) -> None:
        if not step % (1 + len(bars) // _NUMBERED):
            plot.add(_TEXT, "middle", _LEFT + wide * (step + 0.5), plot.bottom + 16, text)

    plot.y_axis(up, whole=True)
    column(0, up.at(low), up.at(base), "total", f"base: {base}")
    name(0, "base")
    for step, bar in enumerate(bars, start=1):
        before, after = up.at(totals[step - 1]), up.at(totals[step])
        kind = "worse" if bar.y > 0 else "better" if bar.y < 0 else "same"
        start = _LEFT + wide * (step - 1)
        plot.add(_LINE, "joint", start + wide * 0.9, before, start + wide * 1.1, before)
        since = len(plot.parts)
        column(step, before, after, kind if bar.mark == "point" else bar.mark, bar.title)
        if bar.y and len(bars) <= _NUMBERED:
            above = min(before, after) - 4
            plot.add(
                _TEXT, "value middle", _LEFT + wide * (step + 0.5), above, f"{round(bar.y):+d}"
            )
        name(step, bar.label)
        plot.link(since, bar.link, bar.title)
    end = len(bars) + 1
    column(end, up.at(low), up.at(totals[-1]), "total", f"end: {totals[-1]}")
    plot.add(_TEXT, "middle", _LEFT + wide * (end + 0.5), plot.bottom + 16, "end")
    return plot.drawing()


def line(
    points: Sequence[Point],
    label: str,
    x: str,
    y: str,
    *,
    shape: Literal["dots", "line", "steps"] = "line",
    logarithmic: bool = False,
    bands: Sequence[tuple[float, float]] = (),
    named: Sequence[tuple[float, str]] = (),
    levels: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Values over x; `bands` shade ranges of x, and an axis that does not begin at 0 says so.

    `named` are the texts below the x axis, else whole numbers; `levels` lines across the chart.
    """
    ys = [*(point.y for point in points), *(value for value, _ in levels)]
    scaled = math.log10 if logarithmic else float
    plot, right = _Plot(label), _WIDTH - _RIGHT
    xs = [scaled(point.x) for point in points]
    across = _Axis(min(xs), max(xs), _LEFT, right)
    up = _Axis(*_extent(ys, 0.08, abs(max(ys))), plot.bottom, _TOP)
    for band in bands:
        first, last = (across.at(scaled(edge)) for edge in band)
        plot.rect("band", first - 1, _TOP, max(last - first, 1) + 2, plot.bottom - _TOP, "")
    plot.y_axis(up, whole=all(float(value).is_integer() for value in ys))
    ticks = named or [(tick, number(round(tick))) for tick in across.ticks(whole=True)]
    plot.x_axis((across.at(scaled(value)), text) for value, text in ticks)
    positions = [(across.at(x), up.at(point.y)) for x, point in zip(xs, points, strict=True)]
    if shape != "dots":
        plot.path("curve", positions, "H{:.1f}V{:.1f}" if shape == "steps" else "L{:.1f},{:.1f}")
    for value, name in levels:
        plot.add(_LINE, "level", _LEFT, up.at(value), right, up.at(value))
        plot.add(_TEXT, "end caption", right, up.at(value) - 4, name)
    # Thousands of points are a line; only those that are marked can be seen.
    every = len(points) <= _DOTS or shape == "dots"
    dots = [at for point, at in zip(points, positions, strict=True) if point.mark != "point"]
    taken = [(left - 5, level - 5, left + 5, level + 5) for left, level in dots]
    for point, (left, level) in zip(points, positions, strict=True):
        if every or point.mark != "point":
            plot.add(_CIRCLE, point.mark, left, level, 5 - 2 * (point.mark == "point"), point.title)
            if point.link:
                plot.link(len(plot.parts) - 1, point.link, point.title)
            # Above its dot, or below, or nowhere: it must not cover another.
            for base in (level - 5, level + 15) if point.label else ():
                box = (left - 7 - _LETTER * len(point.label), base - 10, left - 7, base)
                if not any(_meet(box, other) for other in taken):
                    taken.append(box)
                    plot.add(_TEXT, "end caption", left - 7, base, point.label)
                    break
    plot.unit(x)
    cut = "" if up.low <= 0 <= up.high else "; the axis does not begin at 0"
    plot.add(_TEXT, "caption", 4, _TOP - 6, f"{y}{cut}")
    return plot.drawing()


def _meet(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two boxes of left, top, right and bottom have a common part."""
    apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    return not apart


def intervals(rows: Sequence[TimedComparison], label: str, unit: str) -> Markup:
    """Returns a row a change: its interval as a line, the noise floor around zero as a band."""
    edges = [0.0]
    for row in rows:
        edges += [row.percent or 0, *(row.interval or ()), row.floor or 0, -(row.floor or 0)]
    plot = _Plot(label, _TOP + 22 * len(rows) + _BOTTOM)
    across = _Axis(*_extent(edges, 0.05), _NAMES, _WIDTH - _RIGHT)
    plot.x_axis(((across.at(tick), f"{tick:g}") for tick in across.ticks()), grid=True)
    plot.add(_LINE, "zero", across.at(0), _TOP, across.at(0), plot.bottom)
    plot.unit(unit)
    for index, row in enumerate(rows):
        middle, name = _TOP + 22 * index + 11, f"{row.name} {row.metric}"
        value = row.percent or 0
        if row.floor:
            edge = across.at(-row.floor)
            wide = across.at(row.floor) - edge
            plot.rect("floor", edge, middle - 9, wide, 18, "the noise floor")
        if row.interval:
            plot.whisker(row.verdict, [across.at(end) for end in row.interval], middle)
        title = f"{name}: {change_with_interval(value, row.interval)} {row.verdict}"
        plot.add(_CIRCLE, row.verdict, across.at(value), middle, 4, title)
        name = name[: _MOST_LABEL - 1] + "\u2026" if len(name) > _MOST_LABEL else name
        plot.add(_TEXT, "end", _NAMES - 8, middle + 4, name)
    return plot.drawing()


def spread(own: Distribution, label: str, beside: Distribution | None = None) -> Markup:
    """Draws a histogram of the values with interval and floor, on one axis with `beside`."""
    values, value, unit = own.values, own.value, own.unit
    # A floor is a share of the value.
    wide = (own.floor or 0) * value
    others = beside.values if beside else ()
    edges = [*values, *others, value, *(own.interval or ()), value - wide, value + wide]
    low, high = min(edges), max(edges)
    plot = _Plot(label, 150)
    across = _Axis(*_extent(edges, 0.04, abs(high)), _LEFT, _WIDTH - _RIGHT)
    if wide:
        edge = across.at(value - wide)
        title = "the noise floor around the value"
        size = across.at(value + wide) - edge
        plot.rect("floor", edge, _TOP, size, plot.bottom - _TOP, title)
    plot.x_axis((across.at(tick), f"{tick:.6g}") for tick in across.ticks())
    bins = max(8, min(40, round(2 * math.sqrt(len(values)))))
    size = (high - low) / bins or 1
    counts = [0] * bins
    for taken in values:
        counts[min(bins - 1, int((taken - low) / size))] += 1
    for index, times in enumerate(counts):
        if times:
            first, last = low + index * size, low + (index + 1) * size
            start, end = across.at(first), across.at(last)
            tall = (plot.bottom - _TOP - 24) * times / max(counts)
            title = f"{times} of {len(values)} processes: {first:.5g} to {last:.5g} {unit}"
            top = plot.bottom - tall
            plot.rect("bin", start + 0.5, top, max(end - start - 1, 1), tall, title)
    plot.add(_LINE, "axis", _LEFT, plot.bottom, _WIDTH - _RIGHT, plot.bottom)
    if own.interval:
        plot.whisker("total", [across.at(end) for end in own.interval], _TOP + 8)
    plot.add(_CIRCLE, "total", across.at(value), _TOP + 8, 4, f"{value:.6g} {unit}")
    plot.unit(unit)
    return plot.drawing()


def standing_alone(drawing: Markup) -> str:
    """Returns a chart as a file: it has its own colours, and leads nowhere."""
    style = files("kentry.show").joinpath("html", "charts.css").read_text(encoding="utf-8")
    alone = re.sub(r'<a href="#[^>]*><title>[^<]*</title>|</a>', "", drawing)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
    style = f"<style>{style}</style>"
    return alone.replace("<svg ", head, 1).replace("<title>", f"{style}<title>", 1) + "\n"
