# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers in sentences: "an approximately 6% overhead", "save about 10ns", "194.3 -> 189.5 ns".

A pair with an arrow is two measurements.  Everything else is a claim: what it is of stands in
the sentence, and check.py looks whether any measurement of the same text is behind it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from kentry.importing.numbers import (
    ALL_INSTRUCTIONS,
    CYCLES,
    INTERVAL,
    NS,
    OPS,
    REPETITIONS,
    TICKS,
    Claim,
    Number,
    Reading,
)
from kentry.importing.text import Document, case_of, role

NAME = "text"

_FIGURE = r"\d+(?:,\d{3})*(?:\.\d+)?"
_UNIT = (
    r"(?P<unit>ns\b|nsecs?\b|nanoseconds\b|us\b|usecs?\b|microseconds\b|cycles\b|instructions\b"
    r"|insns\b|ticks\b|ops/s(?:ec)?\b|lps\b)"
)
_ARROW = re.compile(
    rf"(?<![\w.])(?P<old>~?{_FIGURE})\s*(?:ns|us|usecs?|cycles|instructions|insns)?"
    rf"\s*(?:-+>|=+>|\u2192)\s*(?P<new>~?{_FIGURE})\s*/?{_UNIT}"
)
_FROM_TO = re.compile(
    rf"\bfrom\s+(?P<old>~?{_FIGURE})\s*(?:ns|us|usecs?|cycles|instructions|insns)?"
    rf"\s+to\s+(?P<new>~?{_FIGURE})\s*{_UNIT}"
)
_QUALIFIER = (
    r"(?:(?P<bound>more than|less than|at least|at most|up to|over|above|below|superset"
    r"|\u8d85\u8fc7)\s*|(?P<about>approximately|approx\.?|roughly|about|around|nearly|near"
    r"|almost|close to|~)\s*)?"
)
_PERCENT = re.compile(
    rf"{_QUALIFIER}(?<![A-Za-z0-9_.,\-])(?P<value>[-+]?\d+(?:\.\d+)?)(?:\s?(?:-|\u2013|to)\s?"
    r"(?P<upper>\d+(?:\.\d+)?))?\s?(?:%|percent\b|per cent\b)(?![A-Za-z0-9])",
    re.I,
)
_DIFFERENCE = re.compile(
    r"\b(?P<verb>sav(?:e|es|ed|ing)|gain(?:s|ed)?|regain(?:s|ed)?|cost(?:s|ing)?|add(?:s|ed)?"
    r"|los(?:e|es|t)|reduc(?:e|es|ed|ing)|increas(?:e|es|ed|ing)|faster|slower|by)\s+(?:by\s+)?"
    rf"{_QUALIFIER}(?P<value>{_FIGURE})\s?{_UNIT}",
    re.I,
)
_SECOND = re.compile(r"\b(?P<written>(?:once per|one per|a|one)\s+second)\b", re.I)
_NOT_TIME = re.compile(r"\b(?:add|as) a second\b|\ba second (?:patch|time|one)\b", re.I)
# Lines of mails that are no sentences: headers, subjects, diffstats, threads.
_NO_SENTENCE = re.compile(
    r"^\W*\[(?:PATCH|RFC)\b|^[A-Z][\w-]*(?:: .*<?\S+@\S+|: \[PATCH)|\|\s+\d+ [+-]+$|^-+$"
    r"|^\W*\d{4}-\d\d-\d\d |\bfiles? changed, |^\^ permalink|^\* |^` \["
)

_INCREASE = re.compile(
    r"increas|overhead|regress|slow|\bmore\b|higher|worse|\bcosts?\b|penalty|\u589e\u52a0", re.I
)
_DECREASE = re.compile(
    r"decreas|reduc|\bdrop|\blower|\bless\b|\bsav(?:e|es|ed|ing)\b|fewer|\u4e0b\u964d", re.I
)
# "Performance drops by 4 %" may be the time's increase or the rate's decrease.
_PERFORMANCE = re.compile(r"perform|throughput|degrad|\u6027\u80fd", re.I)
_EITHER = re.compile(r"improv|fast|uplift|speed|better", re.I)

_METRICS = (
    ("n", NS, "ns", 1),
    ("us", NS, "us", 1000),
    ("mic", NS, "us", 1000),
    ("cyc", CYCLES, "cycles", 1),
    ("ins", ALL_INSTRUCTIONS, "insns", 1),
    ("ticks", TICKS, "ticks", 1),
    ("ops", OPS, "ops/s", 1),
    ("lps", OPS, "lps", 1),
)
_LOWER = {"more than", "at least", "over", "above", "\u8d85\u8fc7"}
_LIST_STATE = re.compile(r"\bV=([01])\b")
_STATES = {"0": "+vec=none", "1": "+vec=once"}
# A sentence ends there.  A point in a number or in "e.g." does not.
_END = re.compile(r"[.!?;](?=\s+[A-Z(\"*-])|[\u3002\uff0c]|:(?=\s*$)", re.M)
_BASE_LENGTH = 90
# Longer ones, without a blank line, are logs.
_MOST_LINES = 200
_ENOUGH_WORDS = 3
_STOPS = (",", ".", ";", ")")
# So far from a percentage its "increases" may stand, in characters.
_NEAR_WORDS = 60
_WORDS = re.compile(r"\S+")


@dataclass(frozen=True)
class _Paragraph:
    """Lines without a blank one between them, as one text, and where each begins in it."""

    text: str
    starts: tuple[int, ...]
    numbers: tuple[int, ...]

    def line(self, place: int) -> int:
        """The number of the line that a place in the text is on."""
        return self.numbers[bisect_right(self.starts, place) - 1]

    def sentence(self, start: int, end: int) -> str:
        """The sentence around a place, with single blanks."""
        ends = [match.end() for match in _END.finditer(self.text)]
        first = max((one for one in ends if one <= start), default=0)
        last = min((one for one in ends if one >= end), default=len(self.text))
        return " ".join(self.text[first:last].split()).rstrip(".;")


def read(document: Document, used: Iterable[int] = (), sides: Sequence[str] = ()) -> Reading:
    """What sentences say; `used` are lines that a format has, `sides` the two sides it found."""
    found = Reading()
    seen: set[str] = set()
    skip = set(used) | document.in_a_patch
    for paragraph in _paragraphs(document, skip):
        taken = _pairs(found, document, paragraph, sides)
        for claim, phrase in _claims(paragraph, taken):
            if phrase in seen:
                continue
            seen.add(phrase)
            found.claims.append(claim)
            found.lines.add(claim.line)
    found.claims.sort(key=lambda claim: claim.line)
    return found


def _paragraphs(document: Document, skip: set[int]) -> Iterator[_Paragraph]:
    block: list[tuple[int, str]] = []
    for line in document.lines:
        text = line.text.strip()
        if text and line.number not in skip and not _NO_SENTENCE.search(text):
            block.append((line.number, text))
            if len(block) == _MOST_LINES:
                yield _paragraph(block)
                block = []
        elif block:
            yield _paragraph(block)
            block = []
    if block:
        yield _paragraph(block)


def _paragraph(block: Sequence[tuple[int, str]]) -> _Paragraph:
    starts, place = [], 0
    for _, text in block:
        starts.append(place)
        place += len(text) + 1
    return _Paragraph(
        "\n".join(text for _, text in block), tuple(starts), tuple(number for number, _ in block)
    )


def _metric(unit: str) -> tuple[str, str, int]:
    word = unit.lower()
    return next((m, u, f) for start, m, u, f in _METRICS if word.startswith(start))


def _decimal(text: str) -> Decimal:
    return Decimal(text.replace(",", "").lstrip("~"))


def _pairs(
    found: Reading, document: Document, paragraph: _Paragraph, sides: Sequence[str]
) -> list[tuple[int, int]]:
    """Both ends of every "A -> B unit"; returns the places they take up."""
    taken = []
    for pattern in (_ARROW, _FROM_TO):
        for match in pattern.finditer(paragraph.text):
            sentence = paragraph.sentence(*match.span())
            names = _ordered(sides) or ("before", "after")
            for written, side in zip((match["old"], match["new"]), names, strict=True):
                line = paragraph.line(match.start("old" if side == names[0] else "new"))
                found.add(_end_of_pair(document, line, sentence, written, side, match["unit"]))
            taken.append(match.span())
    return taken


def _ordered(sides: Sequence[str]) -> tuple[str, str] | None:
    """The two sides of a text as (before, after), where their names say which is which."""
    roles = {role(side): side for side in sides}
    if len(sides) == 2 and set(roles) == {"before", "after"}:
        return roles["before"], roles["after"]
    return None


def _end_of_pair(
    document: Document, line: int, sentence: str, written: str, side: str, unit: str
) -> Number:
    metric, shown, factor = _metric(unit)
    state = _LIST_STATE.search(sentence)
    case = case_of(sentence) or document.loop_case or document.case
    return Number(
        line=line,
        text=sentence,
        format=NAME,
        side=side,
        case=case + (_STATES[state[1]] if state else ""),
        metric=metric,
        unit=shown,
        written=written,
        value=_decimal(written),
        scale=Decimal(factor),
        about=written.startswith("~"),
        absent=(INTERVAL, REPETITIONS),
    )


def _claims(paragraph: _Paragraph, taken: Sequence[tuple[int, int]]) -> Iterator[tuple[Claim, str]]:
    """Every claim, with the words around it, by which the same one is known again."""
    for pattern in (_PERCENT, _DIFFERENCE, _SECOND):
        for match in pattern.finditer(paragraph.text):
            if any(start <= match.start() < end for start, end in taken):
                continue
            if pattern is _SECOND and _is_ordinal(paragraph.text, match):
                continue
            yield _claim(paragraph, match, pattern), _phrase(paragraph, match)


def _is_ordinal(text: str, match: re.Match[str]) -> bool:
    """Whether "a second" is not a time: "a second patch"."""
    return bool(_NOT_TIME.search(text[max(match.start() - 5, 0) : match.end() + 8]))


def _phrase(paragraph: _Paragraph, match: re.Match[str]) -> str:
    before = _WORDS.findall(paragraph.text[: match.start()])[-2:]
    after = _WORDS.findall(paragraph.text[match.end() :])[:2]
    return " ".join([*before, " ".join(match[0].split()), *after]).lower()


def _claim(paragraph: _Paragraph, match: re.Match[str], pattern: re.Pattern[str]) -> Claim:
    sentence = paragraph.sentence(*match.span())
    parts = match.groupdict()
    start = match.start("value") if "value" in parts else match.start()
    written = " ".join(match[0].split())
    if pattern is _DIFFERENCE:
        written = written.removeprefix(match["verb"]).strip().removeprefix("by ").strip()
    claim = Claim(
        line=paragraph.line(start),
        text=sentence,
        written=written,
        unit="%",
        value=Decimal(1),
        base=_base(sentence, written),
        bound=_bound(parts.get("bound")),
        about=bool(parts.get("about")),
        direction=_direction(sentence, match),
    )
    if pattern is _SECOND:
        return replace(claim, unit="s", direction=0)
    if pattern is _DIFFERENCE:
        metric, _, factor = _metric(match["unit"])
        value = _decimal(match["value"])
        return replace(claim, unit=metric, value=value * factor, direction=0)
    upper = parts.get("upper")
    return replace(
        claim,
        value=Decimal(match["value"]),
        upper=Decimal(upper) if upper else None,
    )


def _bound(word: str | None) -> int:
    if not word:
        return 0
    return 1 if word.lower() in _LOWER else -1


def _direction(sentence: str, match: re.Match[str]) -> int:
    """Whether the words nearest to a percentage speak of an increase or of a decrease."""
    signed = match.groupdict().get("value") or ""
    if signed.startswith(("+", "-")):
        return 1 if signed.startswith("+") else -1
    before, _, after = sentence.partition(" ".join(match[0].split()))
    if _PERFORMANCE.search(before[-_NEAR_WORDS:] + after[:_NEAR_WORDS]):
        return 0
    distances = []
    for pattern, direction in ((_INCREASE, 1), (_DECREASE, -1), (_EITHER, 0)):
        near = before[-_NEAR_WORDS:]
        distances += [(len(near) - word.start(), direction) for word in pattern.finditer(near)]
        near = after[:_NEAR_WORDS]
        distances += [(word.start(), direction) for word in pattern.finditer(near)]
    return min(distances)[1] if distances else 0


def _base(sentence: str, written: str) -> str:
    """What the sentence says a claim is of: the words after it, or those before if few follow."""
    before, _, after = sentence.partition(written)
    after = "" if after[:1] in _STOPS else re.split(r"[,;:]\s|\s-\s|\(", after.strip())[0]
    if len(after.split()) >= _ENOUGH_WORDS:
        return _shortened(after.strip())
    words = before.split()
    while len(" ".join(words)) > _BASE_LENGTH - len(after):
        words = words[1:]
    start = "... " if len(words) < len(before.split()) else ""
    end = f" ... {after.strip()}" if after.strip(' ."') else ""
    return f"{start}{' '.join(words)}{end}" if words else after.strip()


def _shortened(text: str) -> str:
    if len(text) <= _BASE_LENGTH:
        return text
    return f"{text[:_BASE_LENGTH].rpartition(' ')[0]} ..."
