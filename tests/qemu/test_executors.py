# SPDX-License-Identifier: GPL-2.0-or-later
"""The same result from workers of dask's, one of which is killed, from Slurm, and by --plan."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kentry.errors import EXIT_MISTAKE
from kentry.host.cache import cache_dir
from tests import ROOT
from tests.processes import awaited, script

from .conftest import timed
from .test_record import kentry

pytestmark = pytest.mark.qemu

# Two kernels, one of them with words that change nothing.
KERNELS = [f"debian:6.12,append={word}" for word in ("nosmt", "nopti")]
WORDS = ["log", "debian:6.1", *KERNELS, "--arch", "arm64", "--case", "getppid", "--json"]
SLURM = """\
ClusterName=kentry
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmctldPort={ports[0]}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
NodeName=DEFAULT CPUs={cpus} RealMemory=5000
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}]
PartitionName=all Nodes=n[1-2] Default=YES State=UP
"""


@pytest.fixture(scope="module")
def here() -> str:
    """The history as this process measures it."""
    with timed("kentry log of three kernels (arm64)"):
        return kentry(*WORDS).stdout


def free_ports(number: int) -> list[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        first = int(server.getsockname()[1])
    return list(range(first, first + number))


def dask(folder: Path) -> tuple[list[str], list[str], str]:
    """What starts a scheduler, what starts a worker of it, and what --on calls it."""
    [port] = free_ports(1)
    cli = [sys.executable, "-m", "distributed.cli.dask_"]
    scheduler = [*cli[:2], f"{cli[2]}scheduler", "--host", "127.0.0.1", "--port", str(port)]
    worker = [*cli[:2], f"{cli[2]}worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1"]
    worker += ["--local-directory", str(folder), "--no-dashboard"]
    return [*scheduler, "--no-dashboard"], worker, f"dask:127.0.0.1:{port}"


@contextmanager
def running(argv: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program with all that it starts, until the block ends."""
    with (
        log.open("wb") as file,
        subprocess.Popen(argv, stdout=file, stderr=file, start_new_session=True) as process,
    ):
        try:
            yield process
        finally:
            killed(process)


def killed(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def test_a_worker_that_is_killed_costs_no_unit_and_changes_no_number(
    here: str, tmp_path: Path
) -> None:
    scheduler, worker, place = dask(tmp_path)
    argv = [sys.executable, "-m", "kentry", *WORDS, "--fresh", "--on", place]
    with (
        running(scheduler, tmp_path / "scheduler"),
        running(worker, tmp_path / "1"),
        running(worker, tmp_path / "2"),
        running(worker, tmp_path / "3") as third,
        timed("the same by three workers of dask's, one killed"),
    ):
        assert awaited(lambda: (tmp_path / "scheduler").read_bytes().count(b"Register worker") > 2)
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stderr and process.stdout
            said = iter(process.stderr.readline, "")
            # The units are on their way.
            assert any("kernels to measure: 3" in line for line in said)
            time.sleep(1)
            killed(third)
            printed, rest = process.communicate()
    assert process.returncode == 0, rest
    assert json.loads(printed) == json.loads(here)


def test_a_worker_that_does_not_share_the_cache_is_refused(
    tmp_path: Path,
) -> None:
    scheduler, worker, place = dask(tmp_path)
    other = ["env", f"KENTRY_CACHE={tmp_path}", *worker]
    with running(scheduler, tmp_path / "scheduler"), running(other, tmp_path / "1"):
        done = kentry(*WORDS, "--on", place, code=EXIT_MISTAKE)
    assert "does not see" in done.stderr and "Set KENTRY_CACHE" in done.stderr


def test_a_guest_boots_where_its_memory_is(tmp_path: Path) -> None:
    scheduler, worker, place = dask(tmp_path)
    words = ["record", "floor:", "--arch", "arm64", "--json", "--on", place]
    small = [*worker, "--memory-limit", "400MiB"]
    with running(scheduler, tmp_path / "scheduler"), running(small, tmp_path / "1"):
        done = kentry(*words, code=EXIT_MISTAKE)
        assert "512 MiB" in done.stderr and "has 400" in done.stderr
        kentry(*words, "--memory", "300")
        with running(worker, tmp_path / "2"):
            assert awaited(lambda: (tmp_path / "scheduler").read_text().count("Register w") > 1)
            kentry(*words)


def test_a_kernel_is_built_where_the_compiler_is_that_is_here(tmp_path: Path) -> None:
    """A worker with another linker would make another kernel, one without a compiler none."""
    scheduler, worker, place = dask(tmp_path)
    words = ["record", "source:6.12", "--arch", "riscv64", "--case", "getppid", "--json"]
    path = write_programs(tmp_path / "programs")
    other = ["env", f"PATH={path}:{os.environ['PATH']}", *worker]
    with running(scheduler, tmp_path / "scheduler"), running(other, tmp_path / "1"):
        done = kentry(*words, "--on", place, code=EXIT_MISTAKE)
        assert "GNU-ld-of-another" in done.stderr
        with running(worker, tmp_path / "2"), timed("a kernel of riscv64 on the other worker"):
            assert awaited(lambda: (tmp_path / "scheduler").read_text().count("Register w") > 1)
            kentry(*words, "--on", place)


def write_programs(folder: Path) -> Path:
    """A linker that says that it is another one."""
    ld = shutil.which("riscv64-linux-gnu-ld")
    says = '[ "$*" = --version ] && exec echo GNU-ld-of-another'
    script(folder / "riscv64-linux-gnu-ld", f'{says}\nexec {ld} "$@"')
    return folder


def test_without_a_scheduler_nothing_is_measured() -> None:
    [port] = free_ports(1)
    done = kentry(*WORDS, "--on", f"dask:127.0.0.1:{port}", code=EXIT_MISTAKE)
    assert "No scheduler of dask's answers" in done.stderr and "dask scheduler" in done.stderr


@contextmanager
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A controller and two nodes; the test is skipped where they do not start."""
    if not shutil.which("slurmctld"):
        pytest.skip("there is no Slurm: apt install slurm-wlm munge")
    ports, host = free_ports(3), socket.gethostname().partition(".")[0]
    (tmp_path / "key").write_bytes(os.urandom(1024))
    (tmp_path / "key").chmod(0o600)
    tmp_path.chmod(0o755)
    files = {"key-file": "key", "socket": "munge.socket", "pid-file": "pid", "seed-file": "seed"}
    files["log-file"] = "munge.log"
    munged = ["munged", "--force", "--foreground"]
    munged += [f"--{option}={tmp_path / name}" for option, name in files.items()]
    text = SLURM.format(folder=tmp_path, host=host, ports=ports, cpus=os.cpu_count())
    (tmp_path / "slurm.conf").write_text(text)
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))

    def idle() -> bool:
        done = subprocess.run(["sinfo", "-ho", "%T"], capture_output=True, text=True, check=False)
        return done.stdout.split() == ["idle"]

    with running(munged, tmp_path / "munged"), running(["slurmctld", "-D"], tmp_path / "ctld"):
        assert awaited(lambda: (tmp_path / "munge.socket").exists())
        with (
            running(["slurmd", "-D", "-N", "n1"], tmp_path / "n1.said"),
            running(["slurmd", "-D", "-N", "n2"], tmp_path / "n2.said"),
        ):
            if not awaited(idle, seconds=60):
                logs = [(tmp_path / name).read_text()[-500:] for name in ("ctld", "n1.said")]
                pytest.skip(f"Slurm does not start here: {' '.join(logs)}")
            yield


def test_jobs_of_slurm_give_the_same(
    here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slurm(tmp_path, monkeypatch), timed("the same by two nodes of Slurm's"):
        printed = kentry(*WORDS, "--fresh", "--on", "slurm:2").stdout
        assert json.loads(printed) == json.loads(here)
        lines = planned(tmp_path, monkeypatch)
        task = """sed -n "${SLURM_ARRAY_TASK_ID}p" plan.sh | sh"""
        subprocess.run(
            ["sbatch", "--wait", f"--array=1-{len(lines)}", "--wrap", task],
            cwd=tmp_path,
            check=True,
        )
        assert read_again(tmp_path) == json.loads(here)


MAKEFILE = """\
LINES := $(shell seq $$(wc -l <plan.sh))
all: $(LINES)
$(LINES):
\tsed -n $@p plan.sh | sh
"""


@pytest.mark.parametrize("argv", [["parallel", "-j2", "-a", "plan.sh"], ["make", "-kj2"]])
def test_what_starts_commands_starts_the_lines_of_a_plan(
    argv: list[str], here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shutil.which(argv[0]), f"{argv[0]} is in packages/test.txt"
    planned(tmp_path, monkeypatch)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    with timed(f"the lines of a plan by {argv[0]}"):
        subprocess.run(argv, cwd=tmp_path, check=True)
    assert read_again(tmp_path) == json.loads(here)


def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a plan in a cache with the same kernels, where nothing is measured yet."""
    (cache := tmp_path / "cache").mkdir()
    for folder in cache_dir().iterdir():
        if folder.name not in ("recordings", "units"):
            (cache / folder.name).symlink_to(folder)
    monkeypatch.setenv("KENTRY_CACHE", str(cache))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    kentry(*WORDS, "--plan", str(tmp_path / "plan.sh"))
    lines = (tmp_path / "plan.sh").read_text().splitlines()
    assert [line.rpartition("  # ")[2] for line in lines] == WORDS[1:4]
    return lines


def read_again(tmp_path: Path) -> Any:
    """The result of the command once its plan is empty."""
    printed = kentry(*WORDS, "--plan", str(tmp_path / "plan.sh")).stdout
    assert not (tmp_path / "plan.sh").read_text()
    return json.loads(printed)


def test_a_fleet_loses_no_unit_and_does_none_twice_when_it_is_killed() -> None:
    with timed("python -m bench.fleet --short"):
        argv = [sys.executable, "-m", "bench.fleet", "--short"]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 lost, 0 done twice" in done.stdout
