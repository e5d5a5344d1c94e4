# SPDX-License-Identifier: GPL-2.0-or-later
"""The vector side of a run: whether the unit was there, and which events the paths have."""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from kentry.arch import find_arch
from kentry.arch.processors import MAX, Processor, find_processor
from kentry.arch.record import Unit
from kentry.boot.exact import ExactOptions, GuestRun
from kentry.errors import KernelError, UserError
from kentry.kernels.kernel import Kernel, config_lines
from kentry.kernels.payload import text_of
from kentry.path.events import EventCounter, find_markers
from kentry.results.case_name import CaseName
from kentry.results.recording import CaseResult, Instruction, KernelPath


def boots(options: ExactOptions) -> list[ExactOptions]:
    """The options of a boot per vector length, the cpu model's; consoles in FILE.vl-BITS."""
    lengths: dict[int | None, list[str]] = {}
    for name in options.cases:
        state = CaseName.parse(name).state
        lengths.setdefault(state.length if state else None, []).append(name)
    split = []
    for number, (length, names) in enumerate(lengths.items()):
        file = options.console_file
        if file and number:
            file = file.with_name(f"{file.name}.vl-{length or 'own'}")
        split.append(replace(options, cases=tuple(names), vector_length=length, console_file=file))
    return split


def check_options(kernel: Kernel, options: ExactOptions) -> None:
    """Before the boot: KernelError for a unit that the kernel's config says is built out.

    UserError for a vector length that kentry does not measure the processor with.
    """
    arch = find_arch(kernel.arch)
    states = [state for name in options.cases if (state := CaseName.parse(name).state)]
    for unit in filter(None, map(arch.vector.unit, dict.fromkeys(state.unit for state in states))):
        check_built_in(kernel, unit)
    processor = find_processor(arch, options.cpu)
    for state in states:
        check_length(processor, state.unit, state.length)


def check_length(processor: Processor, unit: str, length: int | None) -> None:
    """Raises UserError for a vector length in bits that kentry does not measure it with."""
    has = processor.lengths.get(unit, ())
    if length and has and length not in has:
        raise UserError(
            f"{processor.name} has no vectors of {length} bits.",
            f"Use another length ({', '.join(map(str, has))}), or another --cpu.",
        )


def check_unit(processor: Processor, unit: Unit, length: int | None) -> None:
    """As check_length(), and UserError for a processor that lacks the unit."""
    check_length(processor, unit.name, length)
    if processor.lengths.get(unit.name):
        return
    # A processor that only QEMU knows has no sources.
    if processor.sources:
        raise UserError(f"The processor {processor.name} has no {unit.what}.", "Use another --cpu.")
    if length:
        raise UserError(
            f"kentry cannot set the vector length of {processor.name}.", "Leave --vl out."
        )


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
    side = find_arch(kernel.arch).vector
    cpu = run.target.get("cpu", "?")
    for name in options.cases:
        # Why the probe left the case out: guest/state.c.
        state, reason = CaseName.parse(name).state, run.probe.absent.get(name, "")
        unit = side.unit(state.unit) if state else None
        if state is None or unit is None:
            continue
        if reason == "no-unit":
            # Whether the kernel or the emulator lacks the unit, as far as that is known.
            emulator = run.target.get("emulator", "the emulator")
            if kernel.config is None:
                raise KernelError(
                    f"No {unit.what} in the guest: the kernel's config is not known, so it or"
                    f" {emulator} may lack it.",
                    f"Give the config with config=FILE; CONFIG_{unit.option}=y turns it on.",
                )
            raise KernelError(
                f"No {unit.what} in the guest, though {kernel.spec} has"
                f" CONFIG_{unit.option}=y: {emulator} has none with -cpu {cpu}.",
                "Try --emulator newest." if options.cpu == MAX else f"Use --cpu {MAX}.",
            )
        # A case without vl= is of the processor's default length.
        lengths = find_processor(find_arch(kernel.arch), options.cpu).lengths
        wanted = state.length or lengths.get(unit.name, (0,))[0]
        if not wanted:
            continue
        has = run.probe.vector.get(unit.name) if not state.length else None
        other = has if has and has != wanted else reason.partition("vl=")[2]
        if other:
            raise UserError(
                f"{unit.what} of {wanted} bits could not be had: the guest has {other}.",
                f"The cpu model was {cpu}; take another vector length.",
            )


def with_events(
    cases: Sequence[CaseResult], code: Sequence[Instruction], kernel: Kernel
) -> tuple[list[CaseResult], dict[str, str]]:
    """Returns the cases, with their paths' events if they have a vector state, and the markers."""
    arch = find_arch(kernel.arch)
    markers = find_markers(arch.vector, kernel.symbols.names, text_of(kernel).text)
    counter = EventCounter(markers, arch, code)

    def counted(path: KernelPath) -> KernelPath:
        return structs.replace(path, events=counter.count(path.indexes))

    own = [
        structs.replace(case, paths=tuple(map(counted, case.paths))) if case.parsed.state else case
        for case in cases
    ]
    return own, {marker.event: marker.label for marker in markers}
