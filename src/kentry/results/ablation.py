# SPDX-License-Identifier: GPL-2.0-or-later
"""An ablation: what each config option adds to each case; and its file kentry/ablation/1."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from kentry.results.caveats import Caveat
from kentry.results.comparison import FunctionDelta
from kentry.results.document import UNWRITTEN, Count, about
from kentry.results.recording import Measured

Option = Annotated[str, Meta(pattern="^CONFIG_[A-Za-z0-9_]+$")]


class Added(Struct, frozen=True):
    """One case without and with an option; `delta` is what the option adds."""

    off: Count
    on: Count
    delta: int = 0
    identical_path: bool = False
    functions: Annotated[
        tuple[FunctionDelta, ...], about("Those that differ; their deltas add up to the case's")
    ] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "delta", self.on - self.off)


class OptionRow(Struct, frozen=True):
    """One option: what it adds to each case, or why that is not known."""

    option: Option
    on_in_base: bool
    needs: Annotated[
        tuple[Annotated[str, Meta(pattern="^CONFIG_[A-Za-z0-9_]+=.")], ...],
        about("Options that are on in both kernels, as CONFIG_X=y"),
    ]
    problem: Annotated[str, about("Why there are no numbers; empty where there are some")]
    cases: Annotated[dict[str, Added], about("By the case's name; empty without numbers")]


class Ablation(Struct, frozen=True, kw_only=True, tag_field="schema", tag="kentry/ablation/1"):
    """What kentry ablate printed: what each config option adds to each case."""

    tool: dict[str, str]
    base: Annotated[Measured, about("The kernel in which the options were turned on and off")]
    rows: Annotated[
        tuple[OptionRow, ...],
        about(
            "One per option, the largest addition to the first case first, those"
            " without numbers last"
        ),
    ]
    passed_over: Annotated[tuple[Option, ...], about("Options that the source does not have")]
    caveats: tuple[Caveat, ...]
    cases: Annotated[tuple[str, ...], UNWRITTEN] = ()
