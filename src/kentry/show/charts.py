# SPDX-License-Identifier: GPL-2.0-or-later
"""Charts as SVG, inside a page or alone: no script draws them, so print and mail have them.

Colours are classes of charts.css.  Each chart has a title for screen readers, and the page has its
numbers in a table beside it.  Markup.format() escapes every text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from markupsafe import Markup

from kentry.errors import UserError
from kentry.show.numbers import number

if TYPE_CHECKING:
    from kentry.show.frames import Frame

# Of charts with axes; pixels where the page is wide enough.
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 64, 24, 18, 34
_ROW = 20
# What is too narrow to be seen is left out: at most this many frames are drawn.
_FRAMES = 600
_LABEL = 14

_SVG = Markup(
    '<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}</svg>'
)
_LINE = Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
_RECT = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>')
_CIRCLE = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>')
_TEXT = Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>')
_TITLE = Markup("<title>{}</title>")
_FRAME = Markup(
    '<svg class="frame {}" x="{:.3f}%" y="{}" width="{:.3f}%" height="{}"><title>{}</title>'
    '<rect width="100%" height="100%"/><text x="3" y="14">{}</text></svg>'
)


class Bar(NamedTuple):
    """A step of a waterfall; `title` is the whole sentence about it, `link` an element's id."""

    label: str
    step: int
    title: str
    link: str
    known: bool = True


class Point(NamedTuple):
    """A point of a line chart; `mark` is a class: change, point or recommended.

    `title` is the whole sentence about it, `label` a text beside it, `link` an element's id.
    """

    x: float
    y: float
    title: str
    mark: str = "point"
    link: str = ""
    label: str = ""


class Range(NamedTuple):
    """A value and its interval, beside a noise floor around zero; all in one unit."""

    label: str
    value: float
    interval: tuple[float, float] | None
    floor: float | None
    kind: str
    title: str


def icicle(frames: Sequence[Frame], scale: int, label: str) -> Markup:
    """The path from left to right, calls below their callers; `scale` instructions wide.

    A frame's width is in per cent, so that a script can zoom, and text beyond it is cut off.
    """
    least = sorted((one.size for one in frames), reverse=True)[_FRAMES:][:1] or [0]
    drawn = [one for one in frames if one.size > least[0]]
    boxes = Markup("").join(
        _FRAME.format(
            one.kind,
            100 * one.first / scale,
            _ROW * one.depth,
            100 * one.size / scale,
            _ROW - 1,
            one.title,
            one.name,
        )
        for one in drawn
    )
    height = _ROW * (1 + max((one.depth for one in drawn), default=0))
    return Markup(
        '<svg class="icicle" height="{}" role="application" tabindex="0"'
        ' aria-roledescription="call chart" aria-label="{}"><title>{}</title>{}</svg>'
    ).format(height, label, label, boxes)


def waterfall(base: int, bars: Sequence[Bar], label: str) -> Markup:
    """The count from the base to the last row: a bar a step, joined by lines."""
    totals = [base]
    for bar in bars:
        totals.append(totals[-1] + bar.step)
    low, high = min(totals), max(totals)
    room = (high - low or 1) * 0.15
    axis = _Axis(low - room, high + room, _HEIGHT - _BOTTOM, _TOP)
    wide = (_WIDTH - _LEFT - _RIGHT) / (len(bars) + 2)
    parts = [*_y_axis(axis, whole=True)]
    parts.append(_column(0, wide, axis.at(low - room), axis.at(base), "total", f"base: {base}"))
    parts.append(_label(0, wide, "base", len(bars)))
    for place, bar in enumerate(bars, start=1):
        before, after = axis.at(totals[place - 1]), axis.at(totals[place])
        kind = "worse" if bar.step > 0 else "better" if bar.step < 0 else "same"
        start = _LEFT + wide * (place - 1)
        parts.append(_LINE.format("joint", start + wide * 0.9, before, start + wide * 1.1, before))
        box = _column(place, wide, before, after, kind if bar.known else "unknown", bar.title)
        text = _label(place, wide, bar.label, len(bars))
        number = Markup("")
        if bar.known and bar.step and len(bars) <= _NUMBERED:
            above = min(before, after) - 4
            number = _TEXT.format(
                "value middle", _LEFT + wide * (place + 0.5), above, f"{bar.step:+d}"
            )
        parts.append(
            Markup('<a href="#{}" aria-label="{}">{}{}{}</a>').format(
                bar.link, bar.title, box, number, text
            )
        )
    end, level = len(bars) + 1, axis.at(totals[-1])
    parts.append(_column(end, wide, axis.at(low - room), level, "total", f"end: {totals[-1]}"))
    parts.append(_TEXT.format("middle", _LEFT + wide * (end + 0.5), _HEIGHT - _BOTTOM + 16, "end"))
    return _chart(parts, label, _HEIGHT)


_HEIGHT, _NUMBERED = 240, 24


def _column(place: int, wide: float, start: float, end: float, kind: str, title: str) -> Markup:
    top, height = min(start, end), max(abs(start - end), 2)
    left = _LEFT + wide * (place + 0.1)
    return _RECT.format(kind, left, top, wide * 0.8, height, _TITLE.format(title))


def _label(place: int, wide: float, text: str, bars: int) -> Markup:
    every = 1 + bars // _NUMBERED
    if place % every:
        return Markup("")
    return _TEXT.format("middle", _LEFT + wide * (place + 0.5), _HEIGHT - _BOTTOM + 16, text)


def line(
    points: Sequence[Point],
    label: str,
    x: str,
    y: str,
    *,
    shape: Literal["dots", "line", "steps"] = "line",
    logarithmic: bool = False,
    band: tuple[float, float] | None = None,
    named: Sequence[tuple[float, str]] = (),
    levels: Sequence[tuple[float, str]] = (),
    beside: Mapping[str, Sequence[float]] | None = None,
) -> Markup:
    """Values over x; "steps" holds each up to the next, `band` shades a range of x.

    `named` are the texts below the x axis; whole numbers stand there without any.  `levels` are
    lines across the chart with their names.  `beside` are more curves by name, each with a value
    for every point.
    """
    curves = beside or {}
    xs = [one.x for one in points]
    ys = [*(one.y for one in points), *(value for value, _ in levels)]
    ys += [value for values in curves.values() for value in values]
    scaled = math.log10 if logarithmic else float
    low, high = min(ys), max(ys)
    room = (high - low or abs(high) or 1) * 0.08
    across = _Axis(scaled(min(xs)), scaled(max(xs)), _LEFT, _WIDTH - _RIGHT)
    up = _Axis(low - room, high + room, _HEIGHT - _BOTTOM, _TOP)
    parts = [*_y_axis(up, whole=all(float(one).is_integer() for one in ys))]
    if band:
        left, right = (across.at(scaled(one)) for one in band)
        height = _HEIGHT - _BOTTOM - _TOP
        parts.insert(0, _RECT.format("band", left, _TOP, max(right - left, 1), height, ""))
    ticks = named or [(one, number(round(one))) for one in across.ticks(whole=True)]
    bottom = _HEIGHT - _BOTTOM
    for value, text in ticks:
        place = across.at(scaled(value))
        parts.append(_LINE.format("tick", place, bottom, place, bottom + 4))
        parts.append(_TEXT.format("middle", place, bottom + 16, text))
    path: list[str] = []
    for one in points:
        place, level = across.at(scaled(one.x)), up.at(one.y)
        held = f"H{place:.1f}V{level:.1f}" if shape == "steps" else f"L{place:.1f},{level:.1f}"
        path.append(held if path else f"M{place:.1f},{level:.1f}")
    if shape != "dots":
        parts.append(Markup('<path class="curve" d="{}"/>').format("".join(path)))
    for nth, (name, values) in enumerate(curves.items()):
        kind, level = f"curve beside-{nth % _BESIDE}", _TOP + 12 * (nth + 1)
        places = [
            f"{across.at(scaled(x)):.1f},{up.at(y):.1f}" for x, y in zip(xs, values, strict=True)
        ]
        parts.append(Markup('<path class="{}" d="M{}"/>').format(kind, "L".join(places)))
        parts.append(_LINE.format(kind, _WIDTH - _RIGHT - 30, level, _WIDTH - _RIGHT, level))
        parts.append(_TEXT.format("end", _WIDTH - _RIGHT - 34, level + 4, name))
    for value, name in levels:
        parts.append(_LINE.format("level", _LEFT, up.at(value), _WIDTH - _RIGHT, up.at(value)))
        parts.append(_TEXT.format("end caption", _WIDTH - _RIGHT, up.at(value) - 4, name))
    # Thousands of points are a line; only those that are marked can be seen.
    shown = (
        points
        if len(points) <= _DOTS or shape == "dots"
        else [one for one in points if one.mark != "point"]
    )
    for one in shown:
        size = 3 if one.mark == "point" else 5
        dot = _CIRCLE.format(one.mark, across.at(scaled(one.x)), up.at(one.y), size, one.title)
        if one.link:
            dot = Markup('<a href="#{}" aria-label="{}">{}</a>').format(one.link, one.title, dot)
        parts.append(dot)
        if one.label:
            place, level = across.at(scaled(one.x)), up.at(one.y)
            parts.append(_TEXT.format("end caption", place - 7, level - 5, one.label))
    parts.append(_TEXT.format("end caption", _WIDTH - _RIGHT, _HEIGHT - 4, x))
    parts.append(_TEXT.format("caption", 4, _TOP - 6, y))
    return _chart(parts, label, _HEIGHT)


_DOTS = 400
# Curves that differ; more of them begin again.
_BESIDE = 6


def intervals(rows: Sequence[Range], label: str, unit: str) -> Markup:
    """A row a value: its interval as a line, the noise floor around zero as a band."""
    edges = [0.0]
    for row in rows:
        edges += [row.value, *(row.interval or ()), row.floor or 0, -(row.floor or 0)]
    low, high = min(edges), max(edges)
    room = (high - low or 1) * 0.05
    left, height = _NAMES, _TOP + 22 * len(rows) + _BOTTOM
    across = _Axis(low - room, high + room, left, _WIDTH - _RIGHT)
    parts = []
    bottom = height - _BOTTOM
    for tick in across.ticks():
        place = across.at(tick)
        parts.append(_LINE.format("grid", place, _TOP, place, bottom))
        parts.append(_TEXT.format("middle", place, bottom + 16, f"{tick:g}"))
    parts.append(_LINE.format("zero", across.at(0), _TOP, across.at(0), bottom))
    parts.append(_TEXT.format("end caption", _WIDTH - _RIGHT, height - 4, unit))
    for place, row in enumerate(rows):
        middle = _TOP + 22 * place + 11
        if row.floor:
            edge = across.at(-row.floor)
            parts.append(
                _RECT.format(
                    "floor",
                    *(edge, middle - 9, across.at(row.floor) - edge, 18),
                    _TITLE.format("the noise floor"),
                )
            )
        if row.interval:
            ends = [across.at(one) for one in row.interval]
            parts.append(_LINE.format(f"whisker {row.kind}", ends[0], middle, ends[1], middle))
            for end in ends:
                parts.append(_LINE.format(f"whisker {row.kind}", end, middle - 4, end, middle + 4))
        parts.append(_CIRCLE.format(row.kind, across.at(row.value), middle, 4, row.title))
        parts.append(_TEXT.format("end", left - 8, middle + 4, _cut(row.label)))
    return _chart(parts, label, height)


_NAMES, _MOST_LABEL = 200, 28


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_LABEL else text[: _MOST_LABEL - 1] + "\u2026"


def distribution(
    values: Sequence[float],
    value: float,
    interval: tuple[float, float] | None,
    floor: float | None,
    label: str,
    unit: str,
    beside: Sequence[float] = (),
) -> Markup:
    """A histogram of the processes' values, the interval of the value, the floor around it.

    The axis has room for the values of `beside`, so that two charts can have one axis.
    """
    # A floor is a share of the value.
    wide = (floor or 0) * value
    edges = [*values, *beside, value, *(interval or ()), value - wide, value + wide]
    low, high = min(edges), max(edges)
    room = (high - low or abs(high) or 1) * 0.04
    height = 150
    bottom = height - _BOTTOM
    across = _Axis(low - room, high + room, _LEFT, _WIDTH - _RIGHT)
    parts = []
    if wide:
        edge = across.at(value - wide)
        floor_title = _TITLE.format("the noise floor around the value")
        parts.append(
            _RECT.format(
                "floor", edge, _TOP, across.at(value + wide) - edge, bottom - _TOP, floor_title
            )
        )
    for tick in across.ticks():
        place = across.at(tick)
        parts.append(_LINE.format("tick", place, bottom, place, bottom + 4))
        parts.append(_TEXT.format("middle", place, bottom + 16, f"{tick:.6g}"))
    bins = max(8, min(40, round(2 * math.sqrt(len(values)))))
    size = (high - low) / bins or 1
    counts = [0] * bins
    for one in values:
        counts[min(bins - 1, int((one - low) / size))] += 1
    for place, times in enumerate(counts):
        if times:
            start, end = across.at(low + place * size), across.at(low + (place + 1) * size)
            tall = (bottom - _TOP - 24) * times / max(counts)
            title = _TITLE.format(
                f"{times} of {len(values)} processes:"
                f" {low + place * size:.5g} to {low + (place + 1) * size:.5g} {unit}"
            )
            parts.append(
                _RECT.format(
                    "bin", start + 0.5, bottom - tall, max(end - start - 1, 1), tall, title
                )
            )
    parts.append(_LINE.format("axis", _LEFT, bottom, _WIDTH - _RIGHT, bottom))
    level = _TOP + 8
    if interval:
        ends = [across.at(one) for one in interval]
        parts.append(_LINE.format("whisker total", ends[0], level, ends[1], level))
        parts += [_LINE.format("whisker total", end, level - 4, end, level + 4) for end in ends]
    parts.append(_CIRCLE.format("total", across.at(value), level, 4, f"{value:.6g} {unit}"))
    parts.append(_TEXT.format("end caption", _WIDTH - _RIGHT, height - 4, unit))
    return _chart(parts, label, height)


class _Axis(NamedTuple):
    """Values from `low` to `high` as places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, *, whole: bool = False) -> list[float]:
        """About five round values."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        size = 10 ** math.floor(math.log10(span / 4))
        step = next(one * size for one in (1, 2, 5, 10) if span / (one * size) <= _TICKS)
        if whole:
            step = max(1, round(step))
        first = math.ceil(self.low / step)
        return [one * step for one in range(first, math.floor(self.high / step) + 1)]


_TICKS = 6


def _y_axis(axis: _Axis, *, whole: bool = False) -> list[Markup]:
    parts = []
    for tick in axis.ticks(whole=whole):
        level = axis.at(tick)
        parts.append(_LINE.format("grid", _LEFT, level, _WIDTH - _RIGHT, level))
        parts.append(_TEXT.format("end", _LEFT - 6, level + 4, f"{tick:.6g}"))
    return parts


def _chart(parts: Iterable[Markup], label: str, height: float) -> Markup:
    return _SVG.format("chart", _WIDTH, height, label, label, Markup("").join(parts))


def standing_alone(drawing: Markup) -> str:
    """Returns a chart as a file: it has its own colours, and leads nowhere."""
    style = files("kentry.show").joinpath("html", "charts.css").read_text(encoding="utf-8")
    alone = re.sub(r'<a href="#[^>]*>|</a>', "", drawing)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
    style = f"<style>{style}</style>"
    return alone.replace("<svg ", head, 1).replace("<title>", f"{style}<title>", 1) + "\n"


def check_picture(file: Path) -> None:
    """UserError where the file's ending is none of a picture's."""
    if file.suffix.lower() != ".svg":
        raise UserError(f"{file.name}: unknown picture format.", "End its name in .svg.")
