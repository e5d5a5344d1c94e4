# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe's timed mode, for real, as an ordinary process: what it says, not how long it took."""

import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import host_arch
from kentry.boot.probe_protocol import PREFIX
from kentry.host.native import probe_file
from kentry.time.sampling import Output
from tests.processes import PATIENCE, awaited, gone

# linux/prctl.h
PR_SET_MDWE, PR_GET_MDWE = 65, 66
# As little as can be: a millisecond or so.
LITTLE = ("groups=1", "turns=2", "blocks=3", "block_ns=2000", "seed=1")


def run(*words: str, before: Sequence[str] = (), **options: Any) -> list[str]:
    argv = [*before, str(probe_file(host_arch())), *words]
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE, **options
    )
    assert all(line.startswith(PREFIX) for line in done.stdout.splitlines())
    return [line.removeprefix(PREFIX) for line in done.stdout.splitlines()]


def said(lines: list[str], word: str) -> list[str]:
    return [line.removeprefix(f"{word} ") for line in lines if line.split()[0] == word]


def taken(lines: list[str]) -> Output:
    output = Output()
    output.begin_run()
    for line in lines:
        output.take(PREFIX + line)
    return output


def little(cases: str, *words: str, **options: Any) -> list[str]:
    return run("time", *LITTLE, *words, f"cases={cases}", **options)


def names_of(output: Output, group: int = 0) -> list[str]:
    return [one.case for one in output.processes.values() if one.group == group]


def calls_of(cases: str, *words: str) -> list[int]:
    return [one.calls for one in taken(little(cases, *words)).processes.values()]


def machine(lines: list[str]) -> dict[str, str]:
    (text,) = said(lines, "timing")
    return dict(word.split("=", 1) for word in text.split())


def test_slots_come_in_the_order_given_and_a_name_may_stand_there_twice() -> None:
    wanted = ["getppid", "getpid", "getpid", "getppid"]
    output = taken(little(",".join(wanted)))
    assert names_of(output) == wanted
    assert [one.slot for one in output.processes.values()] == [0, 1, 2, 3]
    # Nothing but absent cases is no group.
    lines = little("nothing,none", "groups=5")
    assert lines[-1] == "end groups=0"
    assert not said(lines, "process")


def test_every_group_has_every_slot_turn_and_block() -> None:
    lines = run("time", "groups=3", "turns=4", "blocks=5", "block_ns=2000", "cases=getppid,getpid")
    output = taken(lines)
    assert lines[-1] == "end groups=3"
    assert output.groups_ended == 3
    assert [key[1:] for key in output.processes] == [(g, s) for g in range(3) for s in range(2)]
    for process in output.processes.values():
        assert process.calls >= 1
        assert [len(turn) for turn in process.turns] == [5] * 4
        assert [len(turn) for turn in process.empties] == [1] * 4
        assert all(ns > 0 for turn in process.turns for ns in turn)
    numbers = [line.split()[:3] for line in said(lines, "t")]
    assert numbers == [
        [str(g), str(s), str(t)] for g in range(3) for s in range(2) for t in range(4)
    ]


def test_what_it_says_first_is_where_it_runs() -> None:
    lines = little("getppid")
    assert lines[0] == f"start {host_arch().name}"
    assert said(lines, "release") == [os.uname().release]
    found = machine(lines)
    assert set(found) == {
        *("cpu", "cpus", "timer_ns", "resolution_ns", "block_ns", "clock", "counters")
    }
    assert int(found["cpu"]) in os.sched_getaffinity(0)
    assert int(found["cpus"]) == len(os.sched_getaffinity(0))
    assert found["clock"] in ("vdso", "syscall")
    assert int(found["timer_ns"]) >= 0 and int(found["resolution_ns"]) >= 1


def test_the_clocks_are_read_before_and_after_each_group() -> None:
    lines = run("time", "groups=2", *LITTLE[1:], "cases=getppid")
    clocks = [[int(word) for word in text.split()] for text in said(lines, "clock")]
    assert [len(clock) for clock in clocks] == [4] * 3
    for column in range(3):
        assert clocks[0][column] < clocks[1][column] < clocks[2][column]
    assert {clock[3] for clock in clocks} == {int(machine(lines)["cpu"])}


def test_counters_are_named_or_there_is_an_errno() -> None:
    lines = little("getppid")
    counters = machine(lines)["counters"]
    if counters.startswith("none:"):
        assert -4096 < int(counters.removeprefix("none:")) < 0
        assert not said(lines, "c")
        return
    for text in said(lines, "c"):
        _, _, _, calls, *found = text.split()
        assert int(calls) >= 3
        assert [word.partition("=")[0] for word in found] == counters.split(",")


def test_a_cpu_that_may_be_used_is_used() -> None:
    cpu = max(os.sched_getaffinity(0))
    lines = little("getppid", f"cpu={cpu}")
    assert machine(lines)["cpu"] == str(cpu)
    assert said(lines, "clock")[-1].split()[3] == str(cpu)


@pytest.mark.parametrize("cpu", [8191, 99999])
def test_a_cpu_that_does_not_exist_is_minus_1_and_no_group(cpu: int) -> None:
    lines = little("getppid", f"cpu={cpu}")
    assert machine(lines)["cpu"] == "-1"
    assert not said(lines, "process") + said(lines, "t") + said(lines, "clock")
    assert lines[-1] == "end groups=0"


@pytest.mark.parametrize("block_ns", [1, 300_000])
def test_a_block_has_2000_steps_of_the_clock_or_more(block_ns: int) -> None:
    found = machine(run("time", f"block_ns={block_ns}", "groups=0", "cases=getppid"))
    # No step is longer than what reading the clock takes and a step: else it was none.
    assert 1 <= int(found["resolution_ns"]) <= 10_000_000
    assert int(found["block_ns"]) == max(block_ns, 2000 * int(found["resolution_ns"]))


@pytest.mark.parametrize("every", [1, 2, 7, 50])
def test_calls_are_a_multiple_of_what_an_extra_call_is_for(every: int) -> None:
    name = f"getppid+extra=1/{every}"
    assert all(calls and calls % every == 0 for calls in calls_of(f"{name},{name}"))


def test_shares_of_extra_calls_are_exact_and_slots_of_a_case_alike() -> None:
    shares = "getppid+extra=1/6,getppid,getppid+extra=1/4,getppid+extra=1/7"
    (calls,) = set(calls_of(shares))
    assert calls % (3 * 4 * 7) == 0
    # Else reading the clock is a larger share of one slot's blocks than of another's.
    first, _, *others = calls_of("getppid,read,getppid,getppid+extra=1/7,getppid")
    assert {first, *others} == {first}
    # A given number is made a multiple.
    assert calls_of("getppid+extra=1/5,getppid,read", "calls=12") == [15, 15, 12]


def test_shares_that_would_need_too_long_a_block_are_absent() -> None:
    # 1021 and 1031 are primes, their product is more than 1 << 20.
    slots = ["getppid+extra=1/1021", "getppid+extra=1/1031", "read+extra=1/1031"]
    lines = little(f"{','.join(slots)},getppid+extra=1/1048577")
    assert said(lines, "absent") == [
        f"{slots[1]} its share has no common multiple with the others'",
        "getppid+extra=1/1048577 its share is less than a call in 1048576",
    ]
    assert names_of(taken(lines)) == [slots[0], slots[2]]


@pytest.mark.parametrize("case", ["pingpong", "fork+exit", "signal"])
def test_a_case_that_does_more_than_calls_of_its_own_has_no_counters(case: str) -> None:
    lines = little(f"getppid,{case}")
    # Where the machine has none at all there are none of the first slot, either.
    assert {text.split()[1] for text in said(lines, "c")} <= {"0"}
    assert names_of(taken(lines)) == ["getppid", case]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("first-use+vec=each", "it is a part of a window: it has no time of its own"),
        *(
            (name, "no such case")
            for name in (
                *("nothing", "getpp", "getppid+vec=sometimes", "getppid+extra=1/0"),
                *("getppid+extra=2/3", "getppid+cache=", "getppid+cache=0K", "getppid+cache=1Kx"),
                *("getppid+cache=warm:code", "getppid+cache=1K:codes", "getppid+cache=:code"),
                *("getppid+extra=1/2+cache=warm", "x" * 200),
            )
        ),
    ],
)
def test_what_cannot_be_timed_is_absent_and_says_why(name: str, reason: str) -> None:
    lines = little(f"getppid,{name},getpid")
    assert said(lines, "absent") == [f"{name} {reason}"]
    assert names_of(taken(lines)) == ["getppid", "getpid"]


def test_a_unit_that_the_machine_has_not_is_absent() -> None:
    wanted = "ssve" if host_arch().name == "arm64" else "vec"
    name = f"getppid+{wanted}=each"
    lines = little(name)
    bits = dict(text.split() for text in said(lines, "vector"))
    if bits.get(wanted, "0") == "0":
        assert said(lines, "absent") == [f"{name} no-unit"]
        assert lines[-1] == "end groups=0"
    else:
        assert not said(lines, "absent")
        assert names_of(taken(lines)) == [name]


def test_a_window_of_several_calls_counts_them() -> None:
    lines = little("getppid+vec=1/4", "calls=6")
    if said(lines, "absent"):
        assert said(lines, "absent") == ["getppid+vec=1/4 no-unit"]
    else:
        assert [one.calls for one in taken(lines).processes.values()] == [24]


@pytest.mark.parametrize("walk", ["warm", "cold", "64K", "4096", "64K:code", "cold:code"])
def test_behind_a_walk_each_call_is_timed_by_itself(walk: str) -> None:
    output = taken(little(f"getppid+cache={walk}"))
    (process,) = output.processes.values()
    assert process.calls == 1
    assert [len(turn) for turn in process.turns] == [3, 3]
    # blocks / 4 + 1 readings with nothing between them.
    assert [len(turn) for turn in process.empties] == [1, 1]
    (process,) = taken(little(f"getppid+cache={walk}", "blocks=9")).processes.values()
    assert [len(turn) for turn in process.empties] == [3, 3]


def test_a_histogram_has_every_call() -> None:
    lines = run("tails", "groups=2", "turns=3", "calls=48", "cases=getppid,read")
    output = taken(lines)
    assert lines[-1] == "end groups=2"
    assert not said(lines, "t") + said(lines, "o") + said(lines, "c")
    assert len(output.processes) == 4
    # From the shortest to the longest.
    for group, slot in ((0, 0), (0, 1), (1, 0), (1, 1)):
        rows = [text.split() for text in said(lines, "h")]
        starts = [int(row[2]) for row in rows if row[:2] == [str(group), str(slot)]]
        assert starts == sorted(set(starts))
    for process in output.processes.values():
        assert process.calls == 1
        assert process.bins.total() == 3 * 48
        assert process.empty_bins.total() == 3 * (48 // 16 + 1)


@pytest.mark.slow
def test_a_case_that_does_not_do_what_it_should_has_failed() -> None:
    # The probe is given no file descriptor more, so its first openat fails.
    lines = little("openat+close", before=["sh", "-c", 'ulimit -n 3; exec "$@"', "sh"])
    (failed,) = said(lines, "failed")
    assert failed.startswith("openat+close phase=")
    assert failed.endswith("result=-24")  # EMFILE
    assert lines[-1] == "end groups=0"
    assert not said(lines, "t")


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A probe that has said its first "clock": its groups begin."""
    with subprocess.Popen(
        [str(probe_file(host_arch())), "time", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith(f"{PREFIX}clock"):
                    break
            yield process
        finally:
            process.kill()


# More groups than it can ever do.
ENDLESS = ("groups=100000000", "turns=8", "blocks=8")


@pytest.fixture
def endless() -> Iterator[subprocess.Popen[str]]:
    """A probe in the midst of its groups, and four processes of it."""
    with started(*ENDLESS, "cases=getppid,read,read,getppid") as process:
        yield process


def stopped_with_children(process: subprocess.Popen[str]) -> list[int]:
    """Its four processes; it is stopped, so that they are all that it will ever have."""
    assert process.stdout is not None
    for _ in process.stdout:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        children = children_of(process.pid)
        if len(children) == 4:
            return children
        process.send_signal(signal.SIGCONT)
    raise AssertionError("the probe has ended")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_its_processes_end_with_it(endless: subprocess.Popen[str], number: signal.Signals) -> None:
    children = stopped_with_children(endless)
    endless.send_signal(number)
    endless.send_signal(signal.SIGCONT)
    assert endless.wait() == -number
    for child in children:
        assert gone(child)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_killed_ends_it(endless: subprocess.Popen[str], number: signal.Signals) -> None:
    assert endless.stdout is not None
    children = stopped_with_children(endless)
    os.kill(children[1], number)
    endless.send_signal(signal.SIGCONT)
    *_, failed, last = endless.stdout.read().splitlines()
    assert re.fullmatch(
        f"{PREFIX}failed (getppid|read) phase=turn call=0 result=-{number.value}", failed
    )
    assert last.startswith(f"{PREFIX}end groups=")
    assert endless.wait() == 0
    for child in children:
        assert gone(child)


def shared_mappings(pid: int) -> list[dict[str, str]]:
    """What /proc/PID/smaps says of each mapping that processes have in common."""
    mappings: list[dict[str, str]] = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            mappings.append({"mapping": line})
        else:
            mappings[-1][first.removesuffix(":")] = rest.strip()
    return [found for found in mappings if "/dev/zero" in found["mapping"]]


def not_for_children(pid: int) -> bool:
    return all("dc" in found["VmFlags"].split() for found in shared_mappings(pid))


def test_what_slots_have_in_common_is_one_mapping(endless: subprocess.Popen[str]) -> None:
    children = stopped_with_children(endless)
    assert len(shared_mappings(endless.pid)) == 1
    for child in children:
        assert len(shared_mappings(child)) == 1
        assert awaited(lambda child=child: not_for_children(child))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("walks", "flag", "said_of_it", "count"),
    [
        (["64K", "8M", "warm", "1M"], "nh", {"Size": "8192 kB", "ShmemPmdMapped": "0 kB"}, 2),
        (["64K:code", "8M", "warm", "1000:code"], "ex", {"Size": "64 kB"}, 3),
    ],
)
def test_walks_read_one_memory_of_small_pages_and_run_code_that_is_never_written(
    walks: list[str], flag: str, said_of_it: dict[str, str], count: int
) -> None:
    cases = ",".join(f"getppid+cache={walk}" for walk in walks)
    with started(*ENDLESS, f"cases={cases}") as process:
        for pid in (*stopped_with_children(process), process.pid):
            assert len(shared_mappings(pid)) == count
            (walked,) = (one for one in shared_mappings(pid) if flag in one["VmFlags"].split())
            assert said_of_it.items() <= walked.items() and "nh" in walked["VmFlags"].split()
            assert flag == "nh" or walked["mapping"].split()[1] == "r-xs"
            assert pid == process.pid or awaited(
                lambda pid=pid: not_for_children(pid)  # type: ignore[misc]
            )
        # The probe itself touched all that its slots read.
        assert flag == "ex" or walked["Rss"] == "8192 kB"


@pytest.mark.slow
def test_where_written_code_may_not_run_what_runs_through_it_is_absent() -> None:
    """PR_SET_MDWE of Linux 6.3, as a service of systemd with MemoryDenyWriteExecute= has it."""
    prctl = ctypes.CDLL(None).prctl
    if prctl(PR_GET_MDWE, 0, 0, 0, 0) < 0:
        pytest.skip("This kernel has no PR_SET_MDWE (Linux 6.3).")
    lines = little(
        "getppid+cache=64K:code,getppid+cache=64K",
        preexec_fn=lambda: prctl(PR_SET_MDWE, 1, 0, 0, 0),
    )
    assert said(lines, "absent") == [
        "getppid+cache=64K:code a program may not run code here that it has written"
    ]
    assert names_of(taken(lines)) == ["getppid+cache=64K"]


def test_processes_that_there_are_end_where_one_more_cannot_be_had() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        file = shutil.copy(probe_file(host_arch()), folder)
        # Root has as many as it likes, so it is somebody else; who is not root may have some
        # already, but none in a name space of its own (Linux 5.14).
        root = os.geteuid() == 0
        before = [] if root else ["unshare", "--user"]
        # It returns when the last process that could write has ended.
        text = subprocess.check_output(
            [*before, file, "time", *LITTLE, "cases=getppid,getpid,gettid,getuid"],
            text=True,
            timeout=PATIENCE,
            user=54321 if root else None,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (3, 3)),
        )
    *_, failed, last = text.splitlines()
    assert re.fullmatch(rf"{PREFIX}failed get\w+ phase=fork call=0 result=-11", failed)
    assert last == f"{PREFIX}end groups=0"


def test_what_could_not_be_written_is_no_whole_run() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    words = ["time", "groups=100000", *LITTLE[1:], "cases=getppid,getpid"]
    # Nobody reads until it has ended: it fills the pipe, and is told so.
    done = subprocess.run([str(probe_file(host_arch())), *words], stdout=writing, timeout=PATIENCE)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    assert done.returncode == 1
    assert f"{PREFIX}t 0 0 0 " in text
    assert f"{PREFIX}end " not in text


def test_it_comes_back_to_its_cpu_at_the_next_group(endless: subprocess.Popen[str]) -> None:
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip("There is one cpu: there is no other to be moved to.")
    assert endless.stdout is not None
    mine = os.sched_getaffinity(endless.pid)
    os.sched_setaffinity(endless.pid, cpus - mine)
    for _, line in zip(range(20_000), endless.stdout, strict=False):
        if line.startswith(f"{PREFIX}clock") and os.sched_getaffinity(endless.pid) == mine:
            return
    raise AssertionError("it stayed where it was moved to")


def has_zeroes(pid: int) -> bool:
    """Is it the process of a case that reads /dev/zero?"""
    try:
        files = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return "/dev/zero" in files


def first_has_zeroes(seed: int) -> bool:
    words = ("groups=1", "turns=100000", "blocks=1", f"seed={seed}", "cases=getppid,read")
    with started(*words) as process:
        assert awaited(lambda: any(map(has_zeroes, children_of(process.pid))))
        return has_zeroes(children_of(process.pid)[0])


def test_small_seeds_give_every_order_alike() -> None:
    """The same seeds give the same orders: this does not depend on chance."""
    assert 8 <= sum(first_has_zeroes(seed) for seed in range(1, 33)) <= 24
