# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings with and without each config option, or each mitigation -> an Ablation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kentry.arch import find_arch
from kentry.boot.mitigations import active
from kentry.compare.counted import compare
from kentry.errors import UserError
from kentry.kernels.build import knows_option
from kentry.kernels.config import Option
from kentry.kernels.repository import Revision
from kentry.results import caveats
from kentry.results.recording import INSTRUCTIONS, Measured, Recording
from kentry.results.studies import NO_BUILD, TOGETHER, Ablation, Added, OptionRow
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
    parameters: str = ""


_ALL_OFF = "mitigations=off"


def ablate_mitigations(unit: Unit) -> Ablation:
    """Measures a kernel as it is, and with each active mitigation, and all, off: a boot each."""
    base = dict(outcomes(perform, [unit]))[0].measured(unit)
    mitigations = active(base.target.get("mitigations", ""))
    known = find_arch(unit.arch).switches
    switches = {flaw: switch for flaw, switch in known.items() if flaw in mitigations}
    switches[TOGETHER] = _ALL_OFF
    units = []
    for flaw, parameters in switches.items():
        append = f"{unit.measurement.append} {parameters}".strip()
        measurement = replace(unit.measurement, append=append)
        units.append(replace(unit, measurement=measurement, label=f"{flaw}: {parameters}"))
    made = dict(outcomes(perform, units))
    trials = []
    for index, (flaw, parameters) in enumerate(switches.items()):
        off, error = made[index].recording, made[index].error
        problem, what = error.sentence if error else "", mitigations.get(flaw, "")
        if off and what and active(off.target["mitigations"]).get(flaw) == what:
            off, problem = None, f"{parameters} leaves it on: {what}."
        trials.append(Trial(flaw, True, (), off, base, problem, what, parameters))
    trials += [
        Trial(flaw, True, on=base, problem=f"No kernel parameter switches {what} off.")
        for flaw, what in mitigations.items()
        if flaw not in switches
    ]
    return tabulate(base, trials)


def ablate(unit: Unit, candidates: Sequence[Option], *, named: bool) -> Ablation:
    """Measures the source as it is, and with each option on and off; those `named` must exist."""
    assert isinstance(unit.source, Revision)
    base = dict(outcomes(perform, [unit]))[0].measured(unit)
    revision, arch = unit.source, find_arch(unit.arch)
    tried = [option for option in candidates if named or knows_option(revision, option.name, arch)]
    on = _try(unit, tried, "on", {o.name: (*o.needs, f"{o.name}={o.value}") for o in tried})
    tried_off = [option for option in tried if on[option.name].recording]
    off = _try(unit, tried_off, "off", {o.name: (*o.needs, f"{o.name}=n") for o in tried_off})
    # An option of a choice cannot be set to n.  It is off if it is not asked for.
    choices = [option for option in tried_off if off[option.name].status == NO_BUILD]
    unasked = _try(unit, choices, "not asked for", {o.name: o.needs for o in choices})
    for option in choices:
        outcome = unasked[option.name]
        if not outcome.recording or not _is_on(option, outcome.recording):
            off[option.name] = outcome
    trials = []
    for option in tried:
        sides = [side for side in (on[option.name], off.get(option.name)) if side]
        problem = next((side.error.sentence for side in sides if side.error), "")
        is_on, ends = _is_on(option, base), (sides[-1].recording, on[option.name].recording)
        trials.append(Trial(option.name, is_on, option.needs, *ends, problem))
    error = next((side.error for side in (*on.values(), *off.values()) if side.error), None)
    if named and error and not any(trial.off and trial.on for trial in trials):
        raise UserError(
            f"None of the options could be measured: {error.sentence}", error.remedy, error.detail
        )
    return tabulate(base, trials, [option.name for option in candidates if option not in tried])


def _is_on(option: Option, recording: Recording) -> bool:
    config: Mapping[str, str] = recording.kernel["config"]
    return config.get(option.name.removeprefix("CONFIG_")) == option.value


def _try(
    unit: Unit, options: Sequence[Option], how: str, sets: Mapping[str, tuple[str, ...]]
) -> dict[str, Outcome]:
    """Returns what becomes of the unit with each option's `sets` on top of what the user set."""
    units = []
    for number, option in enumerate(options, start=1):
        settings = {s.partition("=")[0]: s for s in (*unit.request.sets, *sets[option.name])}
        request = replace(unit.request, sets=tuple(settings.values()))
        label = f"{number} of {len(options)}: {option.name} {how}"
        units.append(replace(unit, request=request, label=label))
    return {options[index].name: outcome for index, outcome in outcomes(perform, units)}


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
        switch = trial.mitigation, trial.parameters
        rows.append(
            OptionRow(trial.option, trial.on_in_base, trial.needs, trial.problem, added, *switch)
        )

    def order(row: OptionRow) -> tuple[bool, int, str]:
        known = row.cases.get(first)
        return (known is None, -known.delta if known else 0, row.option)

    return Ablation(
        tool=base.tool,
        base=Measured.of(base),
        rows=tuple(sorted(rows, key=order)),
        passed_over=tuple(passed_over),
        caveats=tuple(notes),
        cases=(first, *(name for name in names if name != first)),
    )
