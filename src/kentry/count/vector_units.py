# SPDX-License-Identifier: GPL-2.0-or-later
"""The vector side of a run: whether the unit was there, and which events the paths have."""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from kentry.arch import Arch, find_arch
from kentry.arch.record import Unit
from kentry.boot.exact import ExactOptions, GuestRun
from kentry.errors import KernelError, UserError
from kentry.kernels.kernel import Kernel, config_lines
from kentry.kernels.payload import text_of
from kentry.path.events import EventCounter, find_markers
from kentry.results.case_name import CaseName, State
from kentry.results.recording import CaseResult, Instruction

# Why the probe left a case with a vector state out: guest/state.c.
_NO_UNIT = "no-unit"
_OTHER_LENGTH = "vl="


def boots(options: ExactOptions) -> list[ExactOptions]:
    """The options of each boot: one per vector length, because the cpu model has the length.

    The console of a boot after the first is kept in FILE.vl-BITS.
    """
    lengths: dict[int | None, list[str]] = {}
    for name in options.cases:
        state = CaseName.parse(name).state
        lengths.setdefault(state.length if state else None, []).append(name)
    found = []
    for number, (length, names) in enumerate(lengths.items()):
        file = options.console_file
        if file and number:
            file = file.with_name(f"{file.name}.vl-{length or 'own'}")
        found.append(replace(options, cases=tuple(names), vector_length=length, console_file=file))
    return found


def check_options(kernel: Kernel, cases: Sequence[str]) -> None:
    """Before the boot: KernelError where the kernel's config says that a unit is built out."""
    for unit in _units(find_arch(kernel.arch), cases):
        check_built_in(kernel, unit)


def check_built_in(kernel: Kernel, unit: Unit) -> None:
    """KernelError where the kernel's config, if it is known, says that the unit is built out."""
    options = config_lines(kernel)
    if options is not None and options.get(unit.option) != "y":
        hint = f" {unit.hint}" if unit.hint else ""
        raise KernelError(
            f"{kernel.spec} (Linux {kernel.release}) is built without {unit.what}:"
            f" CONFIG_{unit.option} is off or unknown to it.",
            f"Take another kernel, or build one with --config CONFIG_{unit.option}=y.{hint}",
        )


def check_units(kernel: Kernel, run: GuestRun, options: ExactOptions) -> None:
    """After the boot: KernelError or UserError where the guest lacked the unit or its length."""
    arch = find_arch(kernel.arch)
    # A case without vl= is of the cpu model's default length.
    unsized = {state.unit for state in _states(options.cases) if not state.length}
    for unit in _units(arch, options.cases):
        has = run.probe.vector.get(unit.name)
        if has and has != unit.lengths[0] and unit.name in unsized:
            raise _other_length(run, unit, unit.lengths[0], has)
    for name in options.cases:
        state, reason = CaseName.parse(name).state, run.probe.absent.get(name, "")
        lacking = arch.vector.unit(state.unit) if state else None
        if state is None or lacking is None or not reason:
            continue
        if reason == _NO_UNIT:
            # Whether the kernel or the emulator lacks the unit, as far as that is known.
            emulator = run.target.get("emulator", "the emulator")
            if kernel.config is None:
                raise KernelError(
                    f"No {lacking.what} in the guest: the kernel's config is not known, so it or"
                    f" {emulator} may lack it.",
                    f"Give the config with config=FILE; CONFIG_{lacking.option}=y turns it on.",
                )
            raise KernelError(
                f"No {lacking.what} in the guest, though {kernel.spec} has"
                f" CONFIG_{lacking.option}=y: {emulator} has none with -cpu"
                f" {run.target.get('cpu', '?')}.",
                "Try --emulator newest.",
            )
        if reason.startswith(_OTHER_LENGTH):
            wanted = state.length or lacking.lengths[0]
            raise _other_length(run, lacking, wanted, reason.removeprefix(_OTHER_LENGTH))


def _other_length(run: GuestRun, unit: Unit, wanted: int, has: int | str) -> UserError:
    return UserError(
        f"{unit.what} of {wanted} bits could not be had: the guest has {has}.",
        f"The cpu model was {run.target.get('cpu', '?')}; take another vector length.",
    )


def _states(cases: Sequence[str]) -> list[State]:
    return [name.state for name in map(CaseName.parse, cases) if name.state]


def _units(arch: Arch, cases: Sequence[str]) -> list[Unit]:
    found = [arch.vector.unit(state.unit) for state in _states(cases)]
    return list(dict.fromkeys(unit for unit in found if unit))


def with_events(
    cases: Sequence[CaseResult], code: Sequence[Instruction], kernel: Kernel
) -> tuple[list[CaseResult], dict[str, str]]:
    """The cases, those with a vector state with their paths' events; and the markers used."""
    arch = find_arch(kernel.arch)
    markers = find_markers(arch.vector, kernel.symbols.names, text_of(kernel).text)
    counter = EventCounter(markers, arch, code)
    counted = []
    for case in cases:
        if case.parsed.state:
            paths = [
                structs.replace(path, events=counter.count(path.indexes)) for path in case.paths
            ]
            case = structs.replace(case, paths=tuple(paths))
        counted.append(case)
    return counted, {marker.event: marker.label for marker in markers}
