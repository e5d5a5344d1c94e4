# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings with and without each config option, or each mitigation -> an Ablation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kentry.arch import find_arch
from kentry.boot.mitigations import active
from kentry.compare.counted import compare
from kentry.kernels.build import knows_option
from kentry.kernels.config import Option
from kentry.kernels.repository import Revision
from kentry.results import caveats
from kentry.results.recording import INSTRUCTIONS, Measured, Recording
from kentry.results.studies import NO_BUILD, Ablation, Added, OptionRow
from kentry.study.plan import Outcome, Unit, outcomes, perform


@dataclass(frozen=True)
class Trial:
    """One option or mitigation measured off and on, or why not; `on_in_base`: the base has it."""

    option: str
    on_in_base: bool
    needs: tuple[str, ...] = ()
    off: Recording | None = None
    on: Recording | None = None
    problem: str = ""
    mitigation: str = ""
    words: str = ""


# The row of all mitigations together.
_ALL, _ALL_OFF = "all", "mitigations=off"


def ablate_mitigations(unit: Unit) -> Ablation:
    """Measures a kernel as it is, and with each active mitigation, and all, off: a boot each."""
    base = perform(unit).measured()
    mitigations = active(base.target.get("mitigations", ""))
    known = find_arch(unit.arch).switches
    switches = {flaw: words for flaw, words in known.items() if flaw in mitigations}
    switches[_ALL] = _ALL_OFF
    units = []
    for flaw, words in switches.items():
        append = f"{unit.measurement.append} {words}".strip()
        measurement = replace(unit.measurement, append=append)
        units.append(replace(unit, measurement=measurement, label=f"{flaw}: {words}"))
    made = dict(outcomes(perform, units))
    trials = []
    for place, (flaw, words) in enumerate(switches.items()):
        off, error = made[place].recording, made[place].error
        problem, what = error.sentence if error else "", mitigations.get(flaw, "")
        if off and what and active(off.target["mitigations"]).get(flaw) == what:
            off, problem = None, f"{words} leaves it on: {what}."
        trials.append(Trial(flaw, True, (), off, base, problem, what, words))
    trials += [
        Trial(flaw, True, on=base, problem=f"No word of the kernel switches {what} off.")
        for flaw, what in mitigations.items()
        if flaw not in switches
    ]
    return tabulate(base, trials)


def ablate(unit: Unit, candidates: Sequence[Option], *, named: bool) -> Ablation:
    """Measures the source as it is, and with each option on and off; those `named` must exist."""
    assert isinstance(unit.source, Revision)
    base = perform(unit).measured()
    revision, arch = unit.source, find_arch(unit.arch)
    tried = [one for one in candidates if named or knows_option(revision, one.name, arch)]
    on = _try(
        unit, tried, "on", {one.name: (*one.needs, f"{one.name}={one.value}") for one in tried}
    )
    tried_off = [one for one in tried if on[one.name].recording]
    off = _try(
        unit, tried_off, "off", {one.name: (*one.needs, f"{one.name}=n") for one in tried_off}
    )
    # An option of a choice cannot be set to n.  It is off if it is not asked for.
    choices = [one for one in tried_off if off[one.name].status == NO_BUILD]
    unasked = _try(unit, choices, "not asked for", {one.name: one.needs for one in choices})
    for one in choices:
        outcome = unasked[one.name]
        if not outcome.recording or not _is_on(one, outcome.recording):
            off[one.name] = outcome
    trials = []
    for one in tried:
        sides = [side for side in (on[one.name], off.get(one.name)) if side]
        problem = next((side.error.sentence for side in sides if side.error), "")
        own = on[one.name].recording, sides[-1].recording
        trials.append(Trial(one.name, _is_on(one, base), one.needs, own[1], own[0], problem))
    return tabulate(base, trials, [one.name for one in candidates if one not in tried])


def _is_on(option: Option, recording: Recording) -> bool:
    config: Mapping[str, str] = recording.kernel["config"]
    return config.get(option.name.removeprefix("CONFIG_")) == option.value


def _try(
    unit: Unit, options: Sequence[Option], how: str, sets: Mapping[str, tuple[str, ...]]
) -> dict[str, Outcome]:
    """What becomes of the unit with each option's `sets` on top of what the user set."""
    units = []
    for number, option in enumerate(options, start=1):
        words = {word.partition("=")[0]: word for word in (*unit.request.sets, *sets[option.name])}
        request = replace(unit.request, sets=tuple(words.values()))
        label = f"{number} of {len(options)}: {option.name} {how}"
        units.append(replace(unit, request=request, label=label))
    return {options[place].name: outcome for place, outcome in outcomes(perform, units)}


def tabulate(base: Recording, trials: Sequence[Trial], passed_over: Sequence[str] = ()) -> Ablation:
    """The table of all trials on a base: getppid decides the order, or else the first case."""
    names = tuple(case.name for case in base.cases)
    notes = list(base.caveats)
    first = names[0] if "getppid" not in names else "getppid"
    rows = []
    for trial in trials:
        added: dict[str, Added] = {}
        if trial.off and trial.on:
            for case in compare(trial.off, trial.on).cases:
                changed = tuple(row for row in case.functions if row.delta)
                if case.sum_of_contexts:
                    sums = caveats.sum_of_contexts(f"{case.new} {INSTRUCTIONS}", case.name)
                    notes.append(caveats.of_side(trial.option, sums))
                added[case.name] = Added(
                    case.old, case.new, identical_path=case.identical_path, functions=changed
                )
        told = trial.mitigation, trial.words
        rows.append(
            OptionRow(trial.option, trial.on_in_base, trial.needs, trial.problem, added, *told)
        )

    def place(row: OptionRow) -> tuple[bool, int, str]:
        known = row.cases.get(first)
        return (known is None, -known.delta if known else 0, row.option)

    return Ablation(
        tool=base.tool,
        base=Measured.of(base),
        rows=tuple(sorted(rows, key=place)),
        passed_over=tuple(passed_over),
        caveats=tuple(notes),
        cases=(first, *(name for name in names if name != first)),
    )
