# SPDX-License-Identifier: GPL-2.0-or-later
import pytest

from kentry.measure.preflight import Facts, choose_cpu
from kentry.measure.preflight.facts import CPU_FOLDER
from tests.unit.measure.preflight import machines
from tests.unit.measure.preflight.machines import MACHINES


@pytest.mark.parametrize(
    ("name", "cpu"),
    [
        ("guest", 1),  # not 0, though it took fewer interrupts
        ("laptop", 1),
        ("server", 2),  # isolated, and not nohz_full; not in Cpus_allowed_list
        ("board", 3),  # the fewest interrupts besides the timer's
        ("container", 4),
        ("first-process", 0),
        ("unknown", 0),
    ],
)
def test_the_choice(name: str, cpu: int) -> None:
    assert MACHINES[name]().facts().cpu == cpu


def changed(cpus_allowed: str, **files: str) -> Facts:
    machine = machines.server()
    machine.files["/proc/self/status"] = machines.status(Cpus_allowed_list=cpus_allowed)
    return Facts(files=machine.files | files)


def test_what_the_user_limited_it_to_stays() -> None:
    assert choose_cpu(changed("1")) == 1
    assert choose_cpu(changed("0")) == 0
    assert choose_cpu(changed("3")) == 3


def test_a_container_has_its_own_cpus() -> None:
    assert choose_cpu(changed("0-1", **{"/sys/fs/cgroup/cpuset.cpus.effective": "0-1"})) == 1


def test_an_isolated_cpu_that_is_off_is_not_taken() -> None:
    assert choose_cpu(changed("0-1", **{f"{CPU_FOLDER}/online": "0-1,3"})) == 3


def test_a_partitions_cpus_are_its_own() -> None:
    partition = {"/sys/fs/cgroup/cpuset.cpus.isolated": "2-3", f"{CPU_FOLDER}/isolated": "2-3"}
    outside = partition | {"/sys/fs/cgroup/cpuset.cpus.effective": "0-1"}
    assert choose_cpu(changed("0-1", **outside)) == 1
    assert choose_cpu(changed("2-3", **outside)) == 2


def test_nohz_full_alone_is_better_than_nothing() -> None:
    facts = changed("0-3", **{f"{CPU_FOLDER}/isolated": "", f"{CPU_FOLDER}/nohz_full": "3"})
    assert choose_cpu(facts) == 3


def test_contradictions_end_in_a_cpu() -> None:
    assert choose_cpu(changed("9")) == 9
