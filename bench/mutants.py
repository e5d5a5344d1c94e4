# SPDX-License-Identifier: GPL-2.0-or-later
"""How many mutants the unit tests kill: cosmic-ray's mutations, a random sample of each package.

Usage: python -m bench.mutants [PACKAGE ...] [--sample N] [--seed N] [--again] [--jobs N]

A mutant is the code with one change: another operator, a number more or less by one, a condition
turned round, a loop left out.  It is killed where a test of its package (PACKAGES) fails or
hangs.  Each package runs in a copy of the checkout in build/mutants/ of its own, so the checkout
is never changed.  Results are on disk at once, and a run that was stopped goes on where it was;
they hold as long as the modules and the sample are the same.  --again runs the survivors with
today's tests.  Survivors are in build/mutants/PACKAGE.txt, each with its change.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import importlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

import pytest
from cosmic_ray.commands import init
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "mutants"

QUICK = "not qemu and not slow"


class Package(NamedTuple):
    """Which modules are mutated, and which tests are to notice it."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    marks: str = QUICK


PACKAGES = {
    "stats": Package(("*.py",), ("tests/unit/stats",)),
    "path": Package(("*.py",), ("tests/unit/path", "tests/unit/compare", "tests/golden")),
    "compare": Package(("*.py",), ("tests/unit/compare", "tests/golden")),
    # Slow is only what is compiled for it, and here nothing is.
    "vector": Package(
        ("engine.py", "policies.py", "replay.py"),
        ("tests/unit/vector/test_replay.py", "tests/unit/vector/test_optimal.py"),
        "not qemu",
    ),
    "count": Package(("cross_check.py", "joining.py", "recorder.py"), ("tests/unit/count",)),
}
# Those of cosmic-ray's operators that make other code of the same kind: one replacement for each.
OPERATORS = re.compile(
    "core/(AddNot|ExceptionReplacer|NumberReplacer|Replace(AndWithOr|OrWithAnd|BreakWithContinue"
    "|ContinueWithBreak|FalseWithTrue|TrueWithFalse)|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div"
    "|Div_Mul|FloorDiv_Mul|Mod_Mul|Pow_Mul|BitAnd_BitOr|LShift_RShift|RShift_LShift)"
    "|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|Lt_Gt|LtE_Lt|Gt_GtE|Gt_Lt|GtE_Gt|Is_IsNot"
    "|IsNot_Is)|ReplaceUnaryOperator_(Delete_Not|Delete_USub)|ZeroIterationForLoop)"
)
# A sample of this many gives a rate to within 8 percentage points, 19 times in 20.
SAMPLE = 100
# A forked child has these from its parent, for which pytest would warn.
IMPORTED = ("hypothesis", "numba", "numpy", "pyarrow.parquet", "scipy.optimize", "scipy.special")
NO_WARNING = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
# A mutant that takes this many times as long as the unchanged code hangs.
PATIENCE = 5


def copied(package: str) -> Path:
    """A copy of the checkout for the package's mutants, with the tests as they are now."""
    copy = HOME / package
    names = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    shutil.rmtree(copy, ignore_errors=True)
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    (copy / "src" / "kentry" / "native").symlink_to(ROOT / "src" / "kentry" / "native")
    return copy


def session_of(package: str, modules: list[Path], sample: int, seed: int) -> Path:
    """The file of the results, which another text of the modules does not share."""
    digest = hashlib.sha256(f"{sample} {seed} {OPERATORS.pattern}".encode())
    for module in modules:
        digest.update(module.read_bytes())
    return HOME / f"{package}-{digest.hexdigest()[:12]}.sqlite"


def draw(database: WorkDB, modules: list[Path], sample: int, seed: int) -> None:
    """Fills a new session with the mutants of the modules; all but the sample are skipped."""
    init(modules, database, {})
    lines = {str(module): module.read_text(encoding="utf-8").splitlines() for module in modules}
    items = []
    for item in database.work_items:
        (mutation,) = item.mutations
        line = lines[str(mutation.module_path)][mutation.start_pos[0] - 1]
        # The size of a cache, or that a class is frozen, changes no result.
        if OPERATORS.fullmatch(mutation.operator_name) and not line.startswith("@"):
            items.append(item)
    items.sort(key=_mutation)
    random.Random(seed).shuffle(items)
    kept = {item.job_id for item in items[:sample]}
    skipped = [item.job_id for item in database.work_items if item.job_id not in kept]
    database.set_multiple_results(skipped, WorkResult(worker_outcome=WorkerOutcome.SKIPPED))


def _mutation(item: WorkItem) -> tuple[str, str, int]:
    (mutation,) = item.mutations
    return mutation.operator_name, str(mutation.module_path), mutation.occurrence


def todo(database: WorkDB, *, again: bool) -> Iterator[WorkItem]:
    """The mutants without a result, and with `again` the survivors too."""
    yield from database.pending_work_items
    if again:
        for item, result in database.completed_work_items:
            if result.test_outcome == TestOutcome.SURVIVED:
                yield item


def outcome_of_tests(package: str, seconds: float) -> TestOutcome:
    """Whether the package's quick tests survive, in a child that has what is slow to import."""
    own = PACKAGES[package]
    child = os.fork()
    if child == 0:
        os.setsid()
        log = os.open(HOME / f"{package}.log", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        for number in range(3):
            os.dup2(log, number)
        status = 1
        try:
            words = ("-x", "-q", "-p", "no:cacheprovider", *NO_WARNING, "-m", own.marks)
            status = pytest.main([*words, *own.tests])
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return TestOutcome.KILLED if status else TestOutcome.SURVIVED
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return TestOutcome.KILLED


def result_of(item: WorkItem, package: str, seconds: float) -> WorkResult:
    (mutation,) = item.mutations
    operator = get_operator(mutation.operator_name)()
    with use_mutation(mutation.module_path, operator, mutation.occurrence) as (old, new):
        outcome = outcome_of_tests(package, seconds)
    lines = unified_diff(old.splitlines(), new.splitlines(), str(mutation.module_path), lineterm="")
    return WorkResult(WorkerOutcome.NORMAL, test_outcome=outcome, diff="\n".join(lines))


def run(package: str, sample: int, seed: int, again: bool) -> tuple[str, int, int]:
    """Runs what is left of a package's mutants: its name, how many were killed, and of how many.

    Raises SystemExit where the tests fail without a mutation.
    """
    if "kentry" in sys.modules:
        raise SystemExit("kentry is imported already: the tests would not run the mutants")
    copy = copied(package)
    os.chdir(copy)
    sys.path[:0] = [str(copy), str(copy / "src")]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    # A mutated loop over millions of steps would be compiled anew for each mutant.
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    for name in IMPORTED:
        importlib.import_module(name)
    folder = Path("src", "kentry", package)
    modules = sorted(
        {file for pattern in PACKAGES[package].modules for file in folder.glob(pattern)}
    )
    # The other modules are read compiled, those that are mutated as they are.
    compileall.compile_dir("src", quiet=2, rx=re.compile(f"kentry/{package}/"))
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    begin = time.monotonic()
    if outcome_of_tests(package, 600) != TestOutcome.SURVIVED:
        raise SystemExit(f"the tests of {package} fail without a mutation: {HOME / package}.log")
    patience = 10 + PATIENCE * (time.monotonic() - begin)
    session = session_of(package, modules, sample, seed)
    is_new = not session.exists()
    with use_db(session) as database:
        if is_new:
            draw(database, modules, sample, seed)
        for number, item in enumerate(items := list(todo(database, again=again)), 1):
            result = result_of(item, package, patience)
            database.set_result(item.job_id, result)
            print(f"{package} {number}/{len(items)} {result.test_outcome}", file=sys.stderr)
        results = [result for _, result in database.results if result.test_outcome]
    survivors = [result.diff for result in results if result.test_outcome == TestOutcome.SURVIVED]
    (HOME / f"{package}.txt").write_text("\n\n".join(sorted(survivors)), encoding="utf-8")
    return package, len(results) - len(survivors), len(results)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", default=list(PACKAGES))
    parser.add_argument("--sample", type=int, default=SAMPLE, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--again", action="store_true", help="run the survivors again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="packages at a time")
    options = parser.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
        jobs = [
            pool.submit(run, package, options.sample, options.seed, options.again)
            for package in options.packages
        ]
        for package, killed, mutants in (job.result() for job in jobs):
            print(
                f"{package:<8} {killed:>4} of {mutants:>4} mutants killed, {killed / mutants:.0%}"
            )


if __name__ == "__main__":
    main()
