# SPDX-License-Identifier: GPL-2.0-or-later
"""How a result was measured: kernel, config, compiler, emulator, windows, caveats.

Each fact is a sentence, for the list at the end of a changelog.  git, patch(1) and checkpatch.pl
read a commit message too, so texts from outside are changed where these would misread them.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from kentry.arch import ARCHES
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.recording import INSTRUCTIONS, OnTarget
from kentry.show.blocks import Block, Prose
from kentry.show.table import plain, shortened

# Digits of a commit or a digest.
_ABBREVIATED = 12
# checkpatch.pl looks for a commit's whole subject on two lines.
_SUBJECT = 100

# git mailinfo and patch(1) take these for the beginning of a diff.
_DIFF = re.compile(r"(?<!\S)(---|\+\+\+|@@)(?!\S)")
# checkpatch.pl takes these for a commit named in the wrong form.
_COMMIT = re.compile(r"(?i)(?<=\bcommit )[0-9a-f]{5,}\b|(?<!\S)[0-9a-f]{12,}(?![^\s\"'(\[])")


def harmless(text: str) -> str:
    """`text` in plain ASCII, with nothing that git, patch or checkpatch.pl would misread."""
    return _COMMIT.sub(r"<\g<0>>", _DIFF.sub(r"'\1'", plain(text)))


def provenance_blocks(
    sides: Mapping[str, OnTarget], facts: Iterable[str], *, counted: bool = True
) -> list[Block]:
    """The list: kentry's version, then an item a fact; a second line of a fact is not wrapped."""
    tools = dict.fromkeys(f"{one.tool['name']} {one.tool['version']}" for one in sides.values())
    blocks: list[Block] = [f"How it was measured ({', '.join(map(plain, tools))}):"]
    for fact in [*([caveats.not_time()["text"]] if counted else []), *facts]:
        sentence, _, below = fact.partition("\n")
        blocks += [Prose(sentence, "- ")]
        blocks += [f"  {below}"] if below else []
    return blocks


def facts_of_sides(
    sides: Mapping[str, OnTarget], what: str, *, emulated: bool = True
) -> Iterator[str]:
    """Kernel, config, compiler and emulator: each once if it is the same on all sides."""
    facts: dict[str, dict[str, str]] = {what: {}, "config": {}, "compiler": {}, "emulator": {}}
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
        words = (f"{key} {target[key]}" for key in ("machine", "cpu", "seed") if key in target)
        facts[what][side] = _kernel(measured)
        facts["config"][side] = harmless(config or "not known")
        facts["compiler"][side] = harmless(f"{compiler or 'not known'}{linker}")
        facts["emulator"][side] = harmless(", ".join([target.get("emulator", ""), *words]))
    for label, texts in facts.items():
        if emulated or label != "emulator":
            yield from by_side(label, texts)


def by_side(label: str, texts: Mapping[str, str]) -> Iterator[str]:
    """One sentence if all sides have the same text, or else one for each side."""
    if len(set(texts.values())) == 1:
        yield f"{label}: {next(iter(texts.values()))}"
    else:
        yield from (f"{label} ({side}): {text}" for side, text in texts.items())


def _kernel(measured: OnTarget) -> str:
    kernel, origin = measured.kernel, measured.kernel["origin"]
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
    release = f"Linux {kernel['release']}" if kernel["release"] else "release not known"
    release = harmless(origin.get("what", release))
    return f"{name}, {harmless(release)}, {harmless(kernel['arch'])}"


def trailer_facts(origin: Mapping[str, str]) -> Iterator[str]:
    """The patches' own trailers; not "Change-Id:", which checkpatch.pl takes for Gerrit's."""
    if origin.get("change-id"):
        yield harmless(f"the patches' change-id is {origin['change-id']}")
    if origin.get("base-commit"):
        yield f"the patches are made for\nbase-commit: {plain(origin['base-commit'])}"


def window_fact(counted: Sequence[tuple[int, int]]) -> str:
    """How many windows a case has; each count is (agreeing windows, windows)."""
    low, high = min(windows for _, windows in counted), max(windows for _, windows in counted)
    windows = f"{high}" if low == high else f"{low} to {high}"
    spread = sum(agreeing < windows for agreeing, windows in counted)
    agree = f"a spread in {spread} of {len(counted)} counts" if spread else "zero spread"
    return f"{windows} windows a case, {agree}"


def not_measured_fact(measured: Collection[str], axes: Collection[str] = (INSTRUCTIONS,)) -> str:
    """What was not measured: of instructions, time and cache misses, and architectures."""
    others = [name for name in ARCHES if name not in measured]
    more = f", other architectures: {', '.join(others)}" if others else ""
    absent = [word for word in (INSTRUCTIONS, "time") if word not in axes]
    return f"not measured: {', '.join([*absent, 'cache misses'])}{more}"


def caveat_facts(found: Iterable[Caveat]) -> list[str]:
    """A sentence for each caveat except "not time", which begins the list."""
    texts = dict.fromkeys(one["text"] for one in found if one["kind"] != caveats.not_time()["kind"])
    return [harmless(f"note: {text}") for text in texts]
