# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures of what traces and replays show: SVG or PNG, by the file's ending.

The same numbers give the same bytes.  Lines differ in colour, style and mark.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from kentry.errors import UserError
from kentry.host.cache import write_atomically
from kentry.results.log import Log
from kentry.show.numbers import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    "axes.prop_cycle": cycler(color=COLOURS, linestyle=_DASHES, marker=_MARKS),
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "path.simplify": False,
}
# Points between a title and the axes, with room for a line of text.
_ABOVE = 24
_SIZE = (7.2, 4.2)
_DPI = 150
_METADATA = {".svg": "Date", ".png": "Software"}

_SECOND = 1_000_000_000


@dataclass(frozen=True)
class Curve:
    """A line of a sweep: its name, and y over x; x grows."""

    name: str
    x: npt.ArrayLike
    y: npt.ArrayLike


def _axes(file: Path, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty picture for the file; UserError where its ending names no kind of picture."""
    if file.suffix.lower() not in _METADATA:
        raise UserError(
            f"{file.name} names no kind of picture.", f"End it in {' or '.join(_METADATA)}."
        )
    figure = Figure(figsize=(_SIZE[0], _SIZE[1] * (0.6 + 0.4 * rows)), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, 1, row + 1) for row in range(rows)]


def _save(figure: Figure, file: Path) -> None:
    """Without a date and a version, so that the same numbers give the same bytes."""
    kind, data = file.suffix.lower(), io.BytesIO()
    figure.savefig(data, format=kind[1:], dpi=_DPI, metadata={_METADATA[kind]: None})
    write_atomically(file, data.getvalue())


def _note(axes: Axes, text: str, x: float, colour: str, **words: Any) -> None:
    """A text at the top of the axes, at x."""
    axes.annotate(
        text,
        (x, 1),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        color=colour,
        fontsize=9,
        **words,
    )


def _time_axis(axes: Axes, label: str, more: str = "") -> None:
    """Powers of ten with their units, and a mark at one second, the arm64 series' timeout."""
    low, high = axes.get_xlim()
    first, last = int(np.ceil(np.log10(low))), int(np.floor(np.log10(high)))
    axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in range(first, last + 1)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(label)
    if low <= _SECOND <= high:
        axes.axvline(_SECOND, color=_GREY, linewidth=1, linestyle=":")
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        _note(axes, f"1 s{more}", _SECOND, _GREY, xytext=(3, -3), va="top", bbox=box)


def history_picture(file: Path, log: Log) -> None:
    """The values of a history's kernels as steps, its changes marked; UserError, OSError."""
    with mpl.rc_context(_STYLE):
        figure, [axes] = _axes(file)
        known = [(one.place, one.value) for one in log.points if one.value is not None]
        axes.step(*zip(*known, strict=True), where="post")
        for one in log.changes:
            axes.annotate(
                f"{one.delta:+.6g}",
                (one.place, one.new),
                textcoords="offset points",
                xytext=(4, 6),
                color=_GREY,
                fontsize=9,
            )
        axes.set_title(f"{log.case} on {log.arch}: {log.origin['what']}")
        axes.set_xlabel("kernels, oldest first")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel(log.unit)
        _save(figure, file)


def sweep_picture(
    file: Path,
    curves: Sequence[Curve],
    title: str,
    *,
    x: str,
    y: str,
    times: bool,
    recommended: float,
    interval: tuple[float, float],
    levels: Mapping[str, float],
) -> None:
    """Cost over a policy's parameter, a line a workload, the parameter logarithmic.

    With `times` x is in ns; else it is a count.  `recommended` and its `interval` are a line and
    a band; `levels` are policies without the parameter, by name, as horizontal lines.  UserError:
    the ending, or no space.
    """
    with mpl.rc_context(_STYLE):
        figure, (axes,) = _axes(file)
        axes.set_xscale("log")
        for curve in curves:
            every = max(1, np.size(curve.x) // 8)
            axes.plot(curve.x, curve.y, label=curve.name, markevery=every)
        for (name, level), dashes in zip(levels.items(), cycle(_DASHES)):
            axes.axhline(level, label=name, color=_GREY, linestyle=dashes, linewidth=1, zorder=1)
        figure.legend(loc="outside right upper")
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
        if times:
            _time_axis(axes, x)
        else:
            axes.set_xlabel(x)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylabel(y)
        axes.axvspan(*interval, color=_BAND, alpha=0.25, linewidth=0, zorder=0)
        axes.axvline(recommended, color=COLOURS[0], linewidth=1.2, zorder=1)
        value, low, high = (
            duration(one) if times else f"{one:g}" for one in (recommended, *interval)
        )
        text = f"recommended: {value} ({low} to {high})"
        _note(axes, text, recommended, COLOURS[0], xytext=(0, 3), ha="center")
        axes.set_title(title, pad=_ABOVE)
        _save(figure, file)
