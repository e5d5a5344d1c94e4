# SPDX-License-Identifier: GPL-2.0-or-later
"""How a result was measured: kernel, config, compiler, emulator, windows, caveats.

Of a changelog's texts from outside what git, patch(1) and checkpatch.pl would misread is changed.
"""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, TypedDict

from kentry.arch import ARCHES
from kentry.arch.processors import MAX
from kentry.boot.mitigations import active
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.recording import INSTRUCTIONS, OnTarget
from kentry.show.blocks import Block, Prose
from kentry.show.table import plain, shortened

_OF_KERNEL = ("compiler", "build_id", "config_sha256", "image_sha256")
_OF_TARGET = (
    *("kind", "emulator", "machine", "processor", "cpu", "mitigations", "accelerator"),
    *("cpu_model", "host", "cmdline"),
)

# Digits of a commit or a digest.
_ABBREVIATED = 12
# checkpatch.pl looks for a commit's whole subject on two lines.
_SUBJECT = 100
# git mailinfo and patch(1) take these for the beginning of a diff.
_DIFF = re.compile(r"(?<!\S)(---|\+\+\+|@@)(?!\S)")
# checkpatch.pl takes these for a commit named in the wrong form.
_COMMIT = re.compile(r"(?i)(?<=\bcommit )[0-9a-f]{5,}\b|(?<!\S)[0-9a-f]{12,}(?![^\s\"'(\[])")


class HowMeasured(TypedDict):
    """The parts of a Layout that say how its result was measured."""

    facts: list[tuple[str, str]]
    badges: list[str]
    sides: dict[str, OnTarget]


def kernel_name(kernel: Mapping[str, Any]) -> str:
    """Returns which kernel, as far as a file says it: "debian:6.12 (arm64): Linux 6.12.95"."""
    return f"{kernel.get('spec', '?')} ({kernel.get('arch', '?')}): {_release(kernel)}"


def _release(kernel: Mapping[str, Any]) -> str:
    release = f"Linux {kernel['release']}" if kernel.get("release") else "release not known"
    origin = kernel.get("origin")
    return str(origin.get("what", release)) if isinstance(origin, dict) else release


def kernel_lines(kernel: Mapping[str, Any], label: str = "") -> list[str]:
    """Returns the kernel and, below, its compiler."""
    compiler = kernel.get("compiler")
    below = [f"{' ' * len(label)}{compiler}"] if compiler else []
    return [f"{label}{kernel_name(kernel)}", *below]


def side_lines(old: OnTarget, new: OnTarget) -> list[Block]:
    """Returns both kernels, and the processor or the two of them."""
    kernels = [*kernel_lines(old.kernel, "old: "), *kernel_lines(new.kernel, "new: ")]
    return [*kernels, *processor_lines(old.target, new.target)]


def emulator_lines(measured: OnTarget) -> list[Block]:
    """Returns the emulator and the processor, on which the counts depend."""
    target = measured.target
    # The words that make a named processor are long; they are in JSON and on the page.
    is_named = target.get("processor", MAX) != MAX
    model = [] if is_named else [f"-cpu {target.get('cpu', '?')}"]
    return [target.get("emulator", "?"), *model, *processor_lines(target)]


# Of the flaws that the kernel knows, those whose mitigation is not work at each entry.
_ELSEWHERE = {"spectre_v1", "spec_store_bypass", "srbds", "l1tf", "gather_data_sampling"}
_ELSEWHERE |= {"itlb_multihit", "old_microcode"}


def processor_lines(*targets: Mapping[str, Any]) -> list[Block]:
    """Returns a line on the processor of the counts, or on the two of them.

    No line for the targets of recordings that do not say which it was.
    """
    lines = list(map(_processor_line, targets))
    if len(set(lines)) < 2:
        return [Prose(line, then="  ") for line in lines[:1] if line]
    said = zip(("old", "new"), lines, strict=True)
    # A kernel may mitigate on a processor what an older one does not.
    names = {target.get("processor") for target in targets}
    return [
        *(["two processors, so not only the kernel differs:"] if len(names) > 1 else []),
        *(Prose(f"{side}: {line or 'cpu not known'}", "  ", "    ") for side, line in said),
    ]


def _processor_line(target: Mapping[str, Any]) -> str:
    name, states = target.get("processor"), str(target.get("mitigations", ""))
    if not name:
        return ""
    what = f"cpu {name}" + (": all that QEMU emulates, which no silicon has" if name == MAX else "")
    if not states:
        return f"{what}; its mitigations are not known"
    done = active(states).items()
    at_entry = " ".join(f"{flaw}={word}" for flaw, word in done if flaw not in _ELSEWHERE)
    flaws = re.findall(r"(\S+)=vulnerable(?!\S)", states)
    without = ", ".join(flaw for flaw in flaws if flaw not in _ELSEWHERE)
    more = f"; vulnerable, without a mitigation: {without}" if without else ""
    at_work = f"mitigations at entry: {at_entry}" if at_entry else "no mitigation at entry"
    return f"{what}; {at_work}{more}"


def badges(tool: Mapping[str, str], *sides: OnTarget) -> list[str]:
    """Returns how it was measured, in a few words each, for the head of a page."""
    counted = [side for side in sides if side.target.get("kind") == "qemu"]
    words = ["exact", "emulated, not time"] if counted else []
    words += [side.kernel["arch"] for side in sides]
    words += [f"cpu {side.target.get('processor', MAX)}" for side in counted]
    words += [str(side.target.get("emulator", "")).partition(" (")[0] for side in counted]
    others = [f"timed on {side.target.get('kind')}" for side in sides if side not in counted]
    words += [word for word in others if word != "timed on import"]
    words.append(f"{tool['name']} {tool['version']}")
    return list(dict.fromkeys(filter(None, words)))


# A version of Debian's packages of Linux: what is before its first "-" is Linux's own.
_UPSTREAM = re.compile(r"(\d+\.\d+(?:\.\d+)?)(?:~(rc\d+))?-")


def versions(*sides: OnTarget) -> list[str]:
    """Returns the tags that Linux has for the kernels; [] where one is not Linux's own.

    A tree may have anything in it, and a packager's release is not Linux's: Debian's 6.1.0-56 is
    version 6.1.192-1 of its package.
    """
    origins = [side.kernel.get("origin", {}) for side in sides]
    found = [_UPSTREAM.match(origin.get("version", "")) for origin in origins]
    known = [match for match in found if match]
    if len(known) < len(sides) or {o.get("kind") for o in origins} - {"debian", "source"}:
        return []
    return ["-".join(filter(None, (f"v{match[1]}", match[2]))) for match in known]


# What a spec names for everyone; others are of files or trees that a reader may not have.
_SPEC = re.compile(r"(debian|source|floor):\S*")


def repeat(command: str, sides: Sequence[OnTarget], cases: Iterable[str]) -> str:
    """Returns the command that measures kernels again; "" where no command line names them."""
    specs = [str(side.kernel.get("spec", "")) for side in sides]
    cpus = [str(side.target.get("processor", MAX)) for side in sides]
    if not all(map(_SPEC.fullmatch, specs)) or {s.target.get("kind") for s in sides} != {"qemu"}:
        return ""
    if len(set(cpus)) > 1:
        own = zip(specs, cpus, strict=True)
        specs = [spec if ",cpu=" in spec else f"{spec},cpu={cpu}" for spec, cpu in own]
    words = ["kentry", command, *specs, "--arch", sides[0].kernel["arch"]]
    words += ["--cpu", cpus[0]] if {*cpus} != {MAX} and ",cpu=" not in "".join(specs) else []
    return shlex.join([*words, "--case", ",".join(cases)])


def how_measured(tool: Mapping[str, str], *sides: OnTarget) -> HowMeasured:
    """Returns what a page and a changelog say of one kernel, or of an old and a new one."""
    names = ("old", "new") if len(sides) > 1 else ("",)
    own = dict(zip(names, sides, strict=False))
    return {"facts": kernel_facts(*sides), "badges": badges(tool, *sides), "sides": own}


def kernel_facts(*sides: OnTarget) -> list[tuple[str, str]]:
    """Returns what was measured on what, as (name, value); what both sides have is there once."""
    known = []
    for side in sides:
        own = {"kernel": kernel_name(side.kernel)}
        for source, keys in ((side.kernel, _OF_KERNEL), (side.target, _OF_TARGET)):
            own |= {key.replace("_", " "): str(source[key]) for key in keys if source.get(key)}
        known.append(own)
    facts: list[tuple[str, str]] = []
    for name in dict.fromkeys(chain(*known)):
        values = [own.get(name, "not known") for own in known]
        same = len(set(values)) == 1
        facts += zip([name] if same else [f"{name}, old", f"{name}, new"], values, strict=False)
    return facts


def harmless(text: str) -> str:
    """Returns `text` in plain ASCII, without what git, patch or checkpatch.pl would misread."""
    return _COMMIT.sub(r"<\g<0>>", _DIFF.sub(r"'\1'", plain(text)))


def provenance_blocks(
    sides: Mapping[str, OnTarget],
    what: str,
    facts: Iterable[str],
    notes: Iterable[Caveat],
    axes: Collection[str] = (INSTRUCTIONS,),
    *,
    counted: bool = True,
) -> list[Block]:
    """The list: kentry's version, then an item a fact; a second line of a fact is not wrapped.

    `what` each side is, what was measured besides the `facts`, what was not of the `axes`
    instructions and time, and on which architectures, then the notes.  Times alone are not
    `counted`: their emulator says nothing of them.
    """
    tools = dict.fromkeys(f"{side.tool['name']} {side.tool['version']}" for side in sides.values())
    measured, not_time = [side.kernel["arch"] for side in sides.values()], caveats.not_time()
    absent = [axis for axis in (INSTRUCTIONS, "time") if axis not in axes]
    others = [name for name in ARCHES if name not in measured]
    more = f", other architectures: {', '.join(others)}" if others else ""
    texts = dict.fromkeys(note["text"] for note in notes if note["kind"] != not_time["kind"])
    blocks: list[Block] = [f"How it was measured ({', '.join(map(plain, tools))}):"]
    for fact in (
        *([not_time["text"]] if counted else []),
        *_facts_of_sides(sides, what, emulated=counted),
        *facts,
        f"not measured: {', '.join([*absent, 'cache misses'])}{more}",
        *(harmless(f"note: {text}") for text in texts),
    ):
        sentence, _, below = fact.partition("\n")
        blocks += [Prose(sentence, "- "), *([f"  {below}"] if below else [])]
    return blocks


def _facts_of_sides(sides: Mapping[str, OnTarget], what: str, *, emulated: bool) -> Iterator[str]:
    """Kernel, config, compiler and emulator: each once if it is the same on all sides."""
    labels = (what, "config", "compiler", "emulator", "processor")
    facts: dict[str, dict[str, str]] = {label: {} for label in labels}
    for side, measured in sides.items():
        kernel, target = measured.kernel, measured.target
        origin, digest = kernel["origin"], kernel["config_sha256"]
        config = origin.get("config") or ("the package's" if "package" in origin else "")
        if config or digest:
            chosen = f" with {origin['config_set']} on top" if origin.get("config_set") else ""
            abbreviated = f", sha256 {digest[:_ABBREVIATED]}..." if digest else ""
            config = f"{config or 'of the kernel file'}{chosen}{abbreviated}"
        if measured.is_floor:
            config = "none, the floor is kentry's own"
        linker = f"; linker {origin['linker']}" if origin.get("linker") else ""
        compiler = "none, in assembly" if measured.is_floor else kernel["compiler"]
        machine = (f"{key} {target[key]}" for key in ("machine", "cpu", "seed") if key in target)
        facts[what][side] = _kernel(kernel)
        facts["config"][side] = harmless(config or "not known")
        facts["compiler"][side] = harmless(f"{compiler or 'not known'}{linker}")
        facts["emulator"][side] = harmless(", ".join([target.get("emulator", ""), *machine]))
        facts["processor"][side] = harmless(_processor_line(target).removeprefix("cpu "))
    for label, texts in facts.items():
        if label == "processor" and not any(texts.values()):
            continue
        if emulated or label not in ("emulator", "processor"):
            yield from by_side(label, texts)


def by_side(label: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yields one sentence if all sides have the same text, or else one for each side."""
    if len(set(texts.values())) == 1:
        yield f"{label}: {next(iter(texts.values()))}"
    else:
        yield from (f"{label} ({side}): {text}" for side, text in texts.items())


def _kernel(kernel: Mapping[str, Any]) -> str:
    origin = kernel["origin"]
    if "package" in origin and "version" in origin:
        name = harmless(f"{origin['package']} {origin['version']}")
    elif "commit" in origin:
        subject = shortened(harmless(origin.get("subject", "")), _SUBJECT)
        # checkpatch.pl takes a parenthesis without its other one for the end of the subject.
        depths = list(accumulate((char == "(") - (char == ")") for char in subject))
        if depths and (depths[-1] or min(depths) < 0):
            subject = subject.translate(str.maketrans("()", "[]"))
        name = f'commit {origin["commit"][:_ABBREVIATED]} ("{subject}")'
    elif "unpacked" in origin:
        name = harmless(f"unpacked tree {origin['unpacked']}")
    else:
        name = harmless(kernel["spec"])
    return f"{name}, {harmless(_release(kernel))}, {harmless(kernel['arch'])}"


def window_facts(counted: Sequence[tuple[int, int]]) -> list[str]:
    """Returns how many windows a case has; each count is (agreeing windows, windows)."""
    if not counted:
        return []
    low, high = min(windows for _, windows in counted), max(windows for _, windows in counted)
    windows = f"{high}" if low == high else f"{low} to {high}"
    spread = sum(agreeing < windows for agreeing, windows in counted)
    agree = f"a spread in {spread} of {len(counted)} counts" if spread else "zero spread"
    return [f"{windows} windows a case, {agree}"]
