# SPDX-License-Identifier: GPL-2.0-or-later
"""Who performs the units of plans: this process, a dask cluster, or Slurm's nodes.

Workers find what others built and measured in KENTRY_CACHE, a folder that all of them see, as on a
cluster's shared file system.  Nothing is kept in a scheduler, so the same command goes on whoever
died: what was measured is in the cache.
"""

import contextlib
import logging
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import kentry
from kentry.arch import ARCHES
from kentry.count.cache import code_digest
from kentry.errors import GuestError, MissingToolError, UserError, did_you_mean
from kentry.host.cache import cache_dir
from kentry.host.process import run
from kentry.kernels.build import check_tools, find_compiler
from kentry.kernels.repository import Revision
from kentry.kernels.spec import KINDS, parse
from kentry.progress import say
from kentry.results.studies import NO_BOOT
from kentry.study.plan import Outcome, Unit, performed_by
from kentry.study.plan_file import one_unit

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
# Another package's executor: a function of the words after "NAME:", a context of an Executor.
_ENTRY_POINTS = "kentry.executors"
# Seconds that a scheduler has to answer, and that workers have to come.
_ANSWER, _WORKERS = 10, 600
# Slurm's jobs at once, where --on slurm:JOBS names no number, and their size where dask's own
# settings (jobqueue.slurm) name none: a link takes 1 GB.
_JOBS, _CORES, _MEMORY = 8, 2, "4GB"
_AGAIN = "Run the same command again: what was measured is kept."
_SAME_COMPILER = "Install the same compiler, or a toolchain of one version, on all."


@contextlib.contextmanager
def on(name: str) -> Iterator[None]:
    """All plans of the block are performed on `name`; UserError where that is not to be had."""
    kind, _, where = name.partition(":")
    known = {"dask": _dask, "slurm": _slurm, "unit": one_unit}
    known |= {one.name: one.load() for one in entry_points(group=_ENTRY_POINTS)}
    if name == LOCAL:
        yield
    elif kind not in known:
        raise UserError(
            f"Unknown executor '{name}'.{did_you_mean(kind, [LOCAL, *known])}",
            f"Executors: {', '.join([LOCAL, 'dask:HOST:PORT', 'slurm[:JOBS]'])}.",
        )
    else:
        with known[kind](where) as executor, performed_by(executor):
            yield


@contextlib.contextmanager
def _dask(where: str) -> Iterator[Executor]:
    from distributed import Client

    _hush()
    try:
        client = Client(f"tcp://{where}", timeout=_ANSWER, set_as_default=False)
    except (OSError, ValueError, TypeError) as err:
        raise UserError(
            f"No scheduler of dask's answers at {where or 'no address'}: {err}.",
            "Start one, dask scheduler, and name its address: --on dask:HOST:PORT.",
        ) from err
    with client:
        yield _Cluster(client)


@contextlib.contextmanager
def _slurm(where: str) -> Iterator[Executor]:
    import dask
    from dask_jobqueue import SLURMCluster
    from distributed import Client

    _hush()
    if not shutil.which("sbatch"):
        raise UserError(
            "sbatch, by which Slurm takes jobs, is not here.",
            "Run kentry where jobs are submitted.",
        )
    if where and not where.isdecimal():
        raise UserError(f"'{where}' is no number of jobs.", "Write --on slurm:8.")
    set_by_user = dask.config.get("jobqueue.slurm", {})
    cluster = SLURMCluster(
        cores=set_by_user.get("cores") or _CORES,
        memory=set_by_user.get("memory") or _MEMORY,
        processes=1,
        # A unit at a time: its build uses the job's cores.
        worker_extra_args=["--nthreads", "1"],
        python=sys.executable,
        log_directory=str(cache_dir("executors")),
        scheduler_options={"dashboard": False},
    )
    # dask would wait for jobs that Slurm refuses.
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
        script.write(cluster.job_script())
        script.flush()
        tried = run(["sbatch", "--test-only", script.name], check=False)
    if tried.returncode:
        raise UserError(
            f"Slurm refuses the jobs: {tried.stderr.strip()}.",
            "Set cores, memory, queue and account under jobqueue.slurm in dask's settings.",
        )
    with cluster, Client(cluster, set_as_default=False) as client:
        cluster.adapt(minimum=1, maximum=int(where or _JOBS))
        yield _Cluster(client)


def _hush() -> None:
    """Once dask is imported: that connections come and go is no error."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


class _Cluster(Executor):
    """The workers of a scheduler of dask's that can measure what this kentry measures."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        try:
            client.wait_for_workers(1, timeout=_WORKERS)
        except TimeoutError as err:
            raise UserError(
                f"No worker came in {_WORKERS} s.", "Look at the scheduler's own log."
            ) from err
        token = cache_dir("executors") / uuid.uuid4().hex
        token.touch()
        try:
            facts = client.run(_facts, token.name)
        finally:
            token.unlink()
        self._version = _version()
        for worker, its in facts.items():
            _check_version(f"The worker {worker}", its["version"], self._version)
            if not its["cache"]:
                raise UserError(
                    f"The worker {worker} does not see {cache_dir()}.",
                    "Set KENTRY_CACHE, here and there, to a folder that all machines share.",
                )
        self._facts = facts
        # By architecture and compiler: its version and the linker's here, and on each worker.
        self._tools: dict[tuple[str, str], tuple[str, dict[str, str]]] = {}
        say(f"workers of {client.scheduler.address}: {len(facts)}")

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hands a unit to a worker that can build and boot its kernel; UserError where none can."""
        unit: Unit = args[0]
        memory = {
            worker: its["memory"]
            for worker, its in self._facts.items()
            if unit.arch in its["arches"]
        }
        if not memory:
            raise UserError(
                f"No worker has a QEMU for {unit.arch}.",
                f"Install {ARCHES[unit.arch].qemu} on one.",
            )
        need = (unit.program.options if unit.program else unit.measurement).memory
        able = [worker for worker, mib in memory.items() if mib >= need]
        if not able:
            most = max(memory.values())
            raise UserError(
                f"No worker has the {need} MiB that the guest is given: the largest has {most}.",
                "Start dask worker with a larger --memory-limit"
                f"{', or give the guest less: --memory' * bool(unit.program)}.",
            )
        tools = ""
        if compiler := _compiler(unit):
            able = self._builders(unit.arch, compiler, able)
            tools = self._tools[unit.arch, compiler][0]
        # Workers that come later are looked at when they perform a unit.
        places = {"workers": able, "allow_other_workers": True}
        perform = partial(_perform, function, self._version, compiler, tools)
        raw = self._client.submit(perform, *args, **kwargs, **places, pure=False)
        done: Future[Any] = Future()
        raw.add_done_callback(partial(_finish, done))
        return done

    def _builders(self, arch: str, compiler: str, workers: Sequence[str]) -> list[str]:
        """The workers that have the compiler that is here: another one makes another kernel."""
        if (arch, compiler) not in self._tools:
            by_worker = self._client.run(_tools, arch, compiler)
            self._tools[arch, compiler] = _tools(arch, compiler), by_worker
        here, tools = self._tools[arch, compiler]
        able = [worker for worker in workers if tools.get(worker) == here]
        if not able:
            there = sorted({tools[worker] for worker in workers if worker in tools})
            raise UserError(
                f"No worker has the compiler that is here for {arch}, {here}: {'; '.join(there)}.",
                _SAME_COMPILER,
            )
        return able


def _perform(
    function: Callable[..., Any],
    version: str,
    compiler: str,
    tools: str,
    /,
    unit: Unit,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Performs a unit on a worker with that kentry, compiler and linker; UserError on another."""
    _check_version("A worker that came later", _version(), version)
    if compiler and (own := _tools(unit.arch, compiler)) != tools:
        raise UserError(
            f"A worker that came later has another compiler than is here for {unit.arch}, {tools}:"
            f" {own}.",
            _SAME_COMPILER,
        )
    return function(unit, *args, **kwargs)


def _check_version(whose: str, own: str, here: str) -> None:
    if own != here:
        raise UserError(
            f"{whose} has kentry {own}, and here is {here}.",
            "Install one version everywhere: their counts could not be compared.",
        )


def _compiler(unit: Unit) -> str:
    """The name of the compiler that builds the unit's kernel; "" where it is not built."""
    if isinstance(unit.source, Revision):
        return unit.request.compiler
    if unit.source:
        return ""
    spec = parse(unit.spec)
    is_built = "compiler" in KINDS[spec.kind].options
    return unit.request.chosen(spec.options).compiler if is_built else ""


def _tools(arch: str, compiler: str) -> str:
    """What compiler and linker say of themselves, or why nothing can be built; it runs there."""
    try:
        toolchain = find_compiler(ARCHES[arch], compiler)
        check_tools(ARCHES[arch], toolchain.family)
    except MissingToolError as err:
        return err.sentence.rstrip(".")
    return ", ".join(toolchain.identity)


def _finish(done: Future[Any], raw: Any) -> None:
    """Hands on what became of a unit: a lost worker is an outcome, a lost scheduler an error."""
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker

    try:
        done.set_result(raw.result())
    except KilledWorker as err:
        error = GuestError(
            f"its worker died, and so did {err.allowed_failures} more: it may need more memory than"
            " a worker has",
            _AGAIN,
        )
        done.set_result(Outcome(status=NO_BOOT, error=error))
    except (CancelledError, FutureCancelledError, OSError) as err:
        done.set_exception(UserError(f"The scheduler went away: {err}.", _AGAIN))
    except Exception as err:
        done.set_exception(err)


def _version() -> str:
    """This kentry's, with the hash of its files."""
    return f"{kentry.__version__} ({code_digest()[:12]})"


def _facts(token: str, dask_worker: Any = None) -> dict[str, Any]:
    """What a worker is, by its own word, with its memory in MiB; it runs there."""
    limit = dask_worker and dask_worker.memory_manager.memory_limit
    memory = limit or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "memory": memory >> 20,
        "version": _version(),
        "cache": os.path.exists(cache_dir("executors") / token),
        "arches": [name for name, arch in ARCHES.items() if shutil.which(arch.qemu)],
    }
