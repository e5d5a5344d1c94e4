# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures of what traces and replays show: SVG or PNG, by the file's ending.

The same numbers give the same bytes.  Lines differ in colour, style and mark, and have their name
at their end.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from kentry.errors import UserError
from kentry.host.cache import write_atomically
from kentry.report.numbers import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = npt.ArrayLike

# Okabe and Ito's colours, told apart with any colour vision; yellow is too pale for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))
_MARKS = ("o", "s", "^", "D", "v", "P", "X")
_GREY = "#666666"
_BAND = "#56B4E9"
_BAR = COLOURS[0]

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "kentry",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "path.simplify": False,
}
# Of a title, where a line of text stands between it and the axes.
_ABOVE = 24
_SIZE = (7.2, 4.2)
_DPI = 150
_ENDINGS = {".svg": "svg", ".png": "png"}

_SECOND = 1_000_000_000


@dataclass(frozen=True)
class Curve:
    """A line of a sweep: its name, and y over x; x grows."""

    name: str
    x: Values
    y: Values


def _format(file: Path) -> str:
    found = _ENDINGS.get(file.suffix.lower())
    if not found:
        raise UserError(
            f"{file.name} names no kind of picture.", f"End it in {' or '.join(_ENDINGS)}."
        )
    return found


def _save(figure: Figure, file: Path) -> None:
    kind, data = _format(file), io.BytesIO()
    # Without a date and a version: the same numbers, the same bytes.
    figure.savefig(
        data, format=kind, dpi=_DPI, metadata={{"svg": "Date", "png": "Software"}[kind]: None}
    )
    write_atomically(file, data.getvalue())


def _figure(rows: int = 1) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(_SIZE[0], _SIZE[1] * (0.6 + 0.4 * rows)), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, 1, row + 1) for row in range(rows)]


def gaps_picture(file: Path, ns: Values, calls: Values, title: str) -> None:
    """Gaps between uses: above in the guest's time, below in system calls.

    `ns` and `calls` are one number a gap.  UserError: the ending, or no space.
    """
    _format(file)
    times, between = np.asarray(ns, float), np.asarray(calls, np.int64)
    with mpl.rc_context(_STYLE):
        figure, (above, below) = _figure(2)
        _gap_times(above, times)
        _gap_calls(below, between)
        above.set_title(title)
        for axes in (above, below):
            axes.set_ylabel(f"% of {len(times)} gaps")
            axes.margins(y=0.12)
        _save(figure, file)


def _percent(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return np.asarray(100 * counts / max(1, counts.sum()))


# Bins a decade, and from where to where: below and above are one bin each.
_PARTS = 4
_LOWEST, _HIGHEST = 100, 100 * _SECOND


def _gap_times(axes: Axes, times: npt.NDArray[np.float64]) -> None:
    decades = round(np.log10(_HIGHEST / _LOWEST))
    edges = np.geomspace(_LOWEST, _HIGHEST, _PARTS * decades + 1)
    # What is outside the axis is counted in its first and last bin.
    inside = np.clip(times, _LOWEST, np.nextafter(_HIGHEST, 0))
    counts, _ = np.histogram(inside, edges)
    axes.set_xscale("log")
    axes.bar(edges[:-1], _percent(counts), width=np.diff(edges) * 0.9, align="edge", color=_BAR)
    axes.set_xlim(_LOWEST, _HIGHEST)
    _time_axis(axes, "from the end of an interval with use to the next use (guest's clock)")
    longer = 100 * float(np.mean(times >= _SECOND)) if len(times) else 0.0
    _mark_second(axes, f": {longer:.2g} % are longer")


def _time_axis(axes: Axes, label: str) -> None:
    low, high = axes.get_xlim()
    first, last = int(np.ceil(np.log10(low))), int(np.floor(np.log10(high)))
    axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in range(first, last + 1)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(label)


def _mark_second(axes: Axes, more: str = "") -> None:
    if not axes.get_xlim()[0] <= _SECOND <= axes.get_xlim()[1]:
        return
    axes.axvline(_SECOND, color=_GREY, linewidth=1, linestyle=":")
    axes.annotate(
        f"1 s{more}",
        (_SECOND, 1),
        xycoords=("data", "axes fraction"),
        xytext=(3, -3),
        textcoords="offset points",
        va="top",
        color=_GREY,
        fontsize=9,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )


# 0, 1, 2-3, ... and from 1024 on.
_DOUBLINGS = 11


def _gap_calls(axes: Axes, calls: npt.NDArray[np.int64]) -> None:
    lows = [0, *(1 << power for power in range(_DOUBLINGS))]
    place = np.searchsorted(lows, calls, side="right") - 1
    counts = np.bincount(np.clip(place, 0, None), minlength=len(lows))
    axes.bar(np.arange(len(lows)), _percent(counts), width=0.9, color=_BAR)
    axes.set_xticks(np.arange(len(lows)), [*map(str, lows[:-1]), f"{lows[-1]}+"])
    axes.set_xlim(-0.6, len(lows) - 0.4)
    axes.set_xlabel("system calls between, from this number to below the next")


def sweep_picture(
    file: Path,
    curves: Sequence[Curve],
    title: str,
    *,
    x: str = "timeout",
    y: str = "cost, us per second",
    times: bool = True,
    recommended: float | None = None,
    interval: tuple[float, float] | None = None,
    levels: Mapping[str, float] | None = None,
) -> None:
    """Cost over a policy's parameter, a line a workload or cost table, the parameter logarithmic.

    With `times` x is in ns and one second, the series' choice, is marked; else x is a count.
    `recommended` and its `interval` are a line and a band; `levels` are policies without the
    parameter, by name, as horizontal lines.  UserError: the ending, or no space.
    """
    _format(file)
    with mpl.rc_context(_STYLE):
        figure, (axes,) = _figure()
        axes.set_xscale("log")
        ends = _lines(axes, curves)
        for name, level in (levels or {}).items():
            axes.axhline(level, color=_GREY, linewidth=1, linestyle=(0, (8, 4)), zorder=1)
            ends.append((level, name, _GREY))
        axes.set_ylim(bottom=0)
        for end in apart(ends, _NAME_HEIGHT * axes.get_ylim()[1]):
            _beside(axes, *end)
        axes.margins(x=0)
        if times:
            _time_axis(axes, x)
            _mark_second(axes)
        else:
            axes.set_xlabel(x)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylabel(y)
        _recommendation(axes, recommended, interval, times)
        # Above the axes stands the recommendation.
        axes.set_title(title, pad=_ABOVE if recommended is not None else None)
        _save(figure, file)


# A name beside the axes, in parts of the axes' height.
_NAME_HEIGHT = 0.05

# Where a name stands, the name, its colour.
_End = tuple[float, str, str]


def _lines(axes: Axes, curves: Sequence[Curve]) -> list[_End]:
    """Draws them; where their names belong."""
    ends = []
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        xs, ys = np.asarray(curve.x, float), np.asarray(curve.y, float)
        axes.plot(
            xs,
            ys,
            color=colour,
            linestyle=_DASHES[(number + number // len(COLOURS)) % len(_DASHES)],
            marker=_MARKS[number % len(_MARKS)],
            markersize=4.5,
            markevery=max(1, len(xs) // 8),
        )
        ends.append((float(ys[-1]), curve.name, colour))
    return ends


def apart(ends: Sequence[_End], least: float) -> list[_End]:
    """The same, lowest first, but none nearer than `least` to the one below it."""
    placed: list[_End] = []
    for y, name, colour in sorted(ends):
        placed.append((max(y, placed[-1][0] + least) if placed else y, name, colour))
    return placed


def _beside(axes: Axes, y: float, name: str, colour: str) -> None:
    """A name right of the axes, at the height y."""
    axes.annotate(
        name,
        (1, y),
        xycoords=("axes fraction", "data"),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        color=colour,
        fontsize=9,
        annotation_clip=False,
    )


def _recommendation(
    axes: Axes, recommended: float | None, interval: tuple[float, float] | None, times: bool
) -> None:
    if interval:
        axes.axvspan(*interval, color=_BAND, alpha=0.25, linewidth=0, zorder=0)
    if recommended is None:
        return
    axes.axvline(recommended, color=COLOURS[0], linewidth=1.2, zorder=1)
    label = duration if times else "{:g}".format
    span = f" ({label(interval[0])} to {label(interval[1])})" if interval else ""
    axes.annotate(
        f"recommended: {label(recommended)}{span}",
        (recommended, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        color=COLOURS[0],
        fontsize=9,
    )
