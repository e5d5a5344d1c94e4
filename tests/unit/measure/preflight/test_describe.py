# SPDX-License-Identifier: GPL-2.0-or-later
import pytest

from kentry.measure.preflight import describe
from tests.unit.measure.preflight import machines
from tests.unit.measure.preflight.machines import MACHINES


@pytest.mark.parametrize("name", MACHINES)
def test_it_is_text_and_integers(name: str) -> None:
    for key, value in describe(MACHINES[name]().facts()).items():
        assert isinstance(value, (str, int)) and not isinstance(value, bool), key
        assert value != ""


def test_a_guest() -> None:
    found = describe(machines.guest().facts())
    assert found["cpu_model"] == "Example CPU @ 2.60GHz"
    assert found["microcode"] == "0x2b"
    assert found["host"] == "vm"
    assert found["hypervisor"] == "unnamed"
    assert found["clocksource"] == "kvm-clock"
    assert found["cmdline"] == "mitigations=auto"
    assert found["mitigations"] == (
        "retbleed=vulnerable spectre_v2=Retpolines bhi=SW-loop spectre_v1=usercopy-swapgs-barriers"
    )
    assert found["preemption"] == "PREEMPT_DYNAMIC"
    assert (found["audit"], found["seccomp_filters"]) == ("unknown", 0)


def test_a_laptop() -> None:
    found = describe(machines.laptop().facts())
    assert (found["governor"], found["frequency"]) == ("powersave", "400-4700 MHz")
    assert (found["turbo"], found["smt"], found["machine"]) == ("on", "on", "Example Inc. Book 14")
    assert "hypervisor" not in found


def test_a_server() -> None:
    found = describe(machines.server().facts())
    assert (found["turbo"], found["audit"], found["isolated"]) == ("off", "off", "2-3")
    assert found["cmdline"] == (
        "isolcpus=managed_irq,domain,2-3 nohz_full=3 audit=0"
        " randomize_kstack_offset=off mitigations=off tsc=reliable"
    )
    assert found["mitigations"] == "meltdown=vulnerable spectre_v2=vulnerable bhi=vulnerable"
    assert "hypervisor" not in found  # "metal"


def test_a_board() -> None:
    found = describe(machines.board().facts())
    assert found["cpu_model"] == "implementer 0x41 part 0xd03 r0p4"
    assert found["machine"] == "Example Pi 4 Model B Rev 1.4"
    assert "mitigations" not in found and "microcode" not in found
    assert found["audit"] == "off"


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor : 0\nhart : 1\nisa : rv64imafdc\nuarch : sifive,u74-mc\n", "sifive,u74-mc"),
        (
            "processor : 0\nisa : rv64imafdcv\nmvendorid : 0x710\nmarchid : 0x8000000058000001\n",
            "mvendorid 0x710 marchid 0x8000000058000001",
        ),
        ("processor : 0\nisa : rv64imafdc\n", "rv64imafdc"),
        ("processor : 0\nCPU part : what\n", "implementer ? part what r?p?"),
    ],
)
def test_other_processors(cpuinfo: str, model: str) -> None:
    machine = machines.board()
    machine.files["/proc/cpuinfo"] = cpuinfo
    assert describe(machine.facts())["cpu_model"] == model


def test_nothing_is_known_of_nothing() -> None:
    assert describe(machines.unknown().facts()) == {"cpus": 1, "audit": "unknown"}
