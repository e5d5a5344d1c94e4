# SPDX-License-Identifier: GPL-2.0-or-later
"""The history of every case in a store: lines of kernels, and where a count changes in each.

A line has the kernels that differ by their version alone, oldest first: those of one architecture,
processor, flavour or config, compiler and command line.  What was read and compared once is in the
cache, so a store with one more kernel costs one more reading and one more comparison a line.
"""

import ctypes
import os
import re
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import pairwise, starmap
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

import kentry
from kentry.arch import find_arch
from kentry.count.cache import code_digest
from kentry.errors import RecordingError, UserError
from kentry.host.cache import cache_dir, digest_of, read_json, write_json
from kentry.progress import Update, say
from kentry.results.comparison import Real
from kentry.results.document import read_document, to_json
from kentry.results.recording import INSTRUCTIONS, Recording, read_recording
from kentry.results.studies import Answer, Bisection, Log, Point
from kentry.store.store import Store, shown
from kentry.study.commits import Difference, Pair, sums
from kentry.study.log import Neighbours, differences_noted, followed, log_of

_DOCUMENTS = "SELECT sha256, schema FROM documents ORDER BY added, sha256"
# What stands before the flavour in a release: 6.1.0-46-arm64, 6.12.117+deb12-cloud-amd64,
# 6.12.0-55.8.1.el10_1.aarch64+debug, 6.12.9-arch1-1, 7.0.0-rc3-00012-g0123456789ab-dirty.  A
# number that a letter follows is the flavour's: 6.12.9-64k.
_VERSION = re.compile(
    r"^[\d.]+(-rc\d+)?(-arch\d+)?(-\d+(?![a-z\d])[\w.]*)?(\+(deb\d+[.+u\d]*|bpo))?"
    r"(-(?P<next>next)-\d{8})?(-\d+(?![a-z\d]))?(-g[0-9a-f]{7,})?(-dirty)?[-+]?"
)
_COMPILER = re.compile(r"(gcc|clang)\D*?(?:-\d+\D*?)?(\d+)\.\d")
# Debian's has 40 characters; the expression takes time by the square of them.
_LONGEST_COMPILER = 400
_BUILT = re.compile(r"\((\d{4}-\d\d-\d\d)\)$|(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \w+ \d{4})$")
# Kernels of reproducible builds say that they were built then.
_NO_YEAR = 1990

_PR_SET_PDEATHSIG = 1
# How many a process makes at a time.
_AT_ONCE = 8

Made = TypeVar("Made", bound=Struct)
# Of one thing to make: the store's location, and hashes of its files, then cases.
Arguments = tuple[str, ...]


class Counted(Struct, frozen=True):
    """A case of a kernel: its instructions, and those of each function of its commonest path.

    `contexts` has its counts in all contexts.
    """

    value: int
    functions: tuple[tuple[str, int], ...]
    contexts: tuple[int, ...]


class Kernel(Struct, frozen=True, kw_only=True):
    """What the history needs of a recording; `line` has all that sets it apart from other lines."""

    sha256: str
    tool: dict[str, str]
    name: str
    title: str
    version: str
    date: str
    arch: str
    line: tuple[str, ...]
    options: tuple[str, ...]
    cases: dict[str, Counted]


class Compared(Struct, frozen=True):
    """Two kernels of a line: the difference of each case, and what differs beside the kernel."""

    cases: dict[str, Difference]
    differing: tuple[str, ...]


class Sources(Struct, frozen=True):
    """What a history is made of: the hash of the code, those of recordings, and bisections."""

    code: str
    recordings: list[str]
    bisections: list[Bisection]


class Line(Struct, frozen=True):
    """Kernels in order, and by case those that have it, each once, with their log.

    `ends` has how a case's newest kernel differs from its oldest; none where there is but one.
    """

    name: str
    kernels: tuple[Kernel, ...]
    having: dict[str, list[Kernel]]
    logs: dict[str, Log]
    ends: dict[str, Difference]


def read_sources(location: str) -> Sources:
    """Returns what a history of a store is made of; prints which bisections are damaged."""
    store = Store(location)
    documents = store.query(_DOCUMENTS)[1]
    recordings, keys = (
        [key for key, schema in documents if schema.startswith(f"kentry/{kind}/")]
        for kind in ("recording", "bisection")
    )
    bisections = []
    for key in keys:
        try:
            bisections.append(read_document(Path(key), Bisection, "", store.get(key)))
        except (RecordingError, UserError) as err:
            say(err.sentence, is_error=True)
    return Sources(_code(), recordings, bisections)


def history(location: str, sources: Sources, update: Update) -> list[Line]:
    """Returns the lines of the store at `location`; UserError where it has no counts at all."""
    read = _all(Kernel, _kernel, [(location, key) for key in sources.recordings], "reading", update)
    kernels = [kernel for kernel in read if kernel.cases]
    if not kernels:
        raise UserError(
            f"{shown(location)} has no recording with counts.",
            "Add some: kentry store add STORE FILE...",
        )
    lines: dict[tuple[Any, ...], list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        lines[kernel.line, kernel.options].append(kernel)
    ordered = [sorted(own, key=_order) for _, own in sorted(lines.items())]
    by_case = [{case: _with_case(own, case) for case in _cases(own)} for own in ordered]
    pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for having in by_case:
        for case, own in having.items():
            keys = [kernel.sha256 for kernel in own]
            ends = [(keys[0], keys[-1])] if len(keys) > 2 else []
            for pair in (*pairwise(keys), *ends):
                pairs[pair].append(case)
    wanted = [(location, *ends, *cases) for ends, cases in pairs.items()]
    compared = dict(zip(pairs, _all(Compared, _compared, wanted, "comparing", update), strict=True))
    culprits = _culprits(sources.bisections)
    return [
        Line(
            _name(own[0], ordered),
            tuple(own),
            having,
            {case: _log(kernels, case, compared, culprits) for case, kernels in having.items()},
            {
                case: compared[kernels[0].sha256, kernels[-1].sha256].cases[case]
                for case, kernels in having.items()
                if len(kernels) > 1
            },
        )
        # The longest first; those of one length stay in order.
        for own, having in sorted(zip(ordered, by_case, strict=True), key=lambda of: -len(of[0]))
    ]


def _name(kernel: Kernel, lines: Iterable[Sequence[Kernel]]) -> str:
    """What sets a line apart; of the command line what others of the processor do not have."""
    arch, cpu, *made = kernel.line
    alike = [set(own[0].options) for own in lines if own[0].line[:2] == (arch, cpu)]
    options = [word for word in kernel.options if word not in set[str].intersection(*alike)]
    plain = (arch, find_arch(arch).debian, "-")
    return ", ".join((f"{arch} {cpu}", *(part for part in made if part not in plain), *options))


def _all(
    form: type[Made],
    make: Callable[..., Made],
    wanted: Sequence[Arguments],
    what: str,
    update: Update,
) -> list[Made]:
    """What `make` makes of each, on all processors; what it made before is in the cache."""
    made: dict[Arguments, Made] = {}
    missing: dict[Arguments, tuple[Path, dict[str, Any]]] = {}
    for arguments in wanted:
        # The location is where what has this hash was found.
        key = {"of": list(arguments[1:]), "as": form.__name__, "code": _code()}
        file = cache_dir("compared") / f"{digest_of(key)}.json"
        kept = read_json(file)
        try:
            # A file that was put in another's place has that one's key.
            known = kept.get("made") if kept.get("key") == key else None
            made[arguments] = msgspec.convert(known, form)
        except msgspec.ValidationError:
            missing[arguments] = file, key
    for arguments, own in zip(missing, _on_all_processors(make, list(missing)), strict=True):
        made[arguments] = own
        file, key = missing[arguments]
        write_json(file, {"key": key, "made": to_json(own)})
        update(len(made) / len(wanted), f"{what} {len(made)} of {len(wanted)}")
    return [made[arguments] for arguments in wanted]


def _on_all_processors(make: Callable[..., Made], wanted: Sequence[Arguments]) -> Iterator[Made]:
    if len(wanted) <= _AT_ONCE:
        # A process takes a second to start.
        yield from starmap(make, wanted)
        return
    # Each is a child of this process, by whose end it ends.  Neighbours are compared by one, which
    # reads each recording once.
    with ProcessPoolExecutor(None, get_context("spawn"), _end_with, (os.getpid(),)) as pool:
        yield from pool.map(partial(_made, make), wanted, chunksize=_AT_ONCE)


def _end_with(parent: int) -> None:
    # An interrupt is the parent's, which waits for its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # From linux/prctl.h.  If kentry is killed, a worker would wait for more work for ever.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have been killed before.
    if os.getppid() != parent:
        signal.raise_signal(signal.SIGKILL)


def _made(make: Callable[..., Made], arguments: Arguments) -> Made:
    return make(*arguments)


@lru_cache(1)
def _code() -> str:
    folders = (Path(kentry.__file__).parent / name for name in ("compare", "study"))
    return " ".join([code_digest(), *map(code_digest, folders)])


# A worker opens its store once.
_store = lru_cache(1)(Store)


# Of neighbours the older one was the newer one of those before; both ends are read once more.
@lru_cache(2)
def _recording(location: str, key: str) -> Recording:
    store = _store(location)
    return read_recording(Path(f"{store.shown}: {key[:12]}"), store.get(key))


def _kernel(location: str, key: str) -> Kernel:
    recording = _recording(location, key)
    kernel, target = recording.kernel, recording.target
    origin, release = kernel.get("origin") or {}, kernel.get("release") or ""
    compiler = _COMPILER.search((kernel.get("compiler") or "")[:_LONGEST_COMPILER])
    config = f"{origin.get('config', '')} {origin.get('config_set', '')}".strip()
    flavour = config or _VERSION.sub(r"\g<next>-", release).strip("-")
    version = origin.get("version") or release
    commit = origin.get("patched_commit") or origin.get("commit", "")
    image = (kernel.get("image_sha256") or "")[:8]
    # A spec such as image:FILE is that of many kernels.
    named = " ".join(dict.fromkeys(filter(None, (kernel.get("spec"), release, image))))
    if {"kind", "version"} <= origin.keys():
        named = f"{origin['kind']}:{version}"
    line = (
        kernel["arch"],
        str(target.get("processor") or target.get("cpu_model") or target.get("cpu") or "?"),
        flavour or "-",
        " ".join(compiler.groups()) if compiler else "-",
    )
    return Kernel(
        sha256=key,
        tool=recording.tool,
        name=commit or named,
        title=origin.get("patch") or origin.get("subject") or f"Linux {release}",
        version=version,
        date=_date(kernel),
        arch=kernel["arch"],
        line=line,
        options=tuple(str(target.get("cmdline", "")).split()),
        cases={
            case.name: Counted(case.metrics[INSTRUCTIONS].value, case.functions, tuple(case.values))
            for case in recording.cases
            if INSTRUCTIONS in case.metrics and not recording.program
        },
    )


def _date(kernel: Mapping[str, Any]) -> str:
    """When its commit was made or, of a package, the day it was built, ISO 8601; or empty.

    All are in UTC: their texts are compared.
    """
    match = _BUILT.search(kernel.get("banner") or "")
    try:
        if stated := (kernel.get("origin") or {}).get("date") or (match and match[1]):
            date = datetime.fromisoformat(stated)
            return (date.astimezone(UTC) if date.tzinfo else date).isoformat()
        day = datetime.strptime(match[2] if match else "", "%a %b %d %H:%M:%S %Z %Y")
    except (ValueError, TypeError, OverflowError):
        return ""
    return day.isoformat() if day.year >= _NO_YEAR else ""


def _order(kernel: Kernel) -> tuple[Any, ...]:
    """Kernels of one version and date stay in the order in which they were added."""
    from debian.debian_support import NativeVersion

    # A release candidate comes before its release.
    version = re.sub(r"[^\w.+~:-]", ".", kernel.version.replace("-rc", "~rc"))
    try:
        return (NativeVersion(version), kernel.date)
    except ValueError:
        return (NativeVersion("0"), kernel.date)


def _cases(kernels: Iterable[Kernel]) -> list[str]:
    return list(dict.fromkeys(case for kernel in kernels for case in kernel.cases))


def _with_case(kernels: Iterable[Kernel], case: str) -> list[Kernel]:
    """Those with the case, each kernel once: as it was added last."""
    own = {kernel.name: kernel for kernel in kernels if case in kernel.cases}
    return list(own.values())


def _compared(location: str, old: str, new: str, *cases: str) -> Compared:
    pair = Pair(_recording(location, old), _recording(location, new), cases)
    apart = {case: pair.difference(case) for case in cases}
    return Compared(apart, tuple(pair.differing()))


# By both releases, architecture, processor and case: commits and what each of them adds.
_Culprits = dict[tuple[str, ...], list[tuple[str, Real]]]


def _culprits(bisections: Iterable[Bisection]) -> _Culprits:
    """The commits that bisections between two releases named."""
    culprits: _Culprits = defaultdict(list)
    for own in bisections:
        answers: list[Bisection | Answer] = [own, *own.others] if own.metric == INSTRUCTIONS else []
        for answer in answers:
            commits = [
                (f'{one.commit[:12]} ("{one.subject}")', one.delta) for one in answer.culprits
            ]
            of = own.arch, own.origin.get("cpu", ""), answer.case
            # The commit of a release says so.
            for what in ("commit", "subject"):
                ends = getattr(own.good, what), getattr(own.bad, what)
                culprits[(*ends, *of)] += commits
    return culprits


def _log(
    kernels: Sequence[Kernel],
    case: str,
    compared: Mapping[tuple[str, str], Compared],
    culprits: _Culprits,
) -> Log:
    names = [kernel.name for kernel in kernels]
    titles = {index: kernel.title for index, kernel in enumerate(kernels)}
    between = [compared[old.sha256, new.sha256] for old, new in pairwise(kernels)]
    steps = [Neighbours(at, at + 1, own.cases[case]) for at, own in enumerate(between)]
    values: dict[int, Real] = {0: kernels[0].cases[case].value}
    changes, notes = followed(values, steps, names, titles)
    counted = (kernel.cases[case] for kernel in kernels)
    notes += sums(case, zip((own.contexts for own in counted), values.values(), strict=True))
    notes += differences_noted(
        (name, own.differing) for name, own in zip(names[1:], between, strict=True)
    )
    points = [
        Point(place=at, name=own.name, title=own.title, date=own.date, value=values[at])
        for at, own in enumerate(kernels)
    ]
    arch, cpu, *_ = kernels[0].line
    named = []
    for change in changes:
        ends = [f"Linux {release}" for release in change.releases or ()]
        old, new = ends or (change.before, change.names[-1])
        # A bisection of another config may have found a change of the other sign.
        commits = culprits.get((old, new, arch, cpu, case), ())
        found = dict.fromkeys(commit for commit, delta in commits if delta * change.delta > 0)
        named.append(msgspec.structs.replace(change, found=tuple(found)))
    origin = {"what": f"{len(names)} kernels", "cpu": cpu}
    counts = {case: tuple(values.values())}
    tool = kernels[-1].tool
    return log_of(tool, arch, len(names), points, counts, {case: named}, notes, origin)
