# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry check on a real kernel: a budget that holds, one that does not, and --update."""

import json
from pathlib import Path

import pytest

from tests.builders import validate

from .test_record import KERNEL, fetched, kentry

pytestmark = pytest.mark.qemu


def test_a_real_kernel_is_held_against_its_budgets(tmp_path: Path) -> None:
    fetched(KERNEL, "arm64")
    file = tmp_path / "budgets.toml"
    file.write_text(
        'baseline.arm64 = "base.json"\n[arm64]\n'
        'getppid = 9999 # roomy\ngetuid = 1 # tight\ngetpid = "+0"\n'
    )
    words = ("check", KERNEL, "--arch", "arm64", "--budget", str(file), "-q")
    # There is no baseline yet; the mistake costs no boot.
    assert "--update writes it" in kentry(*words, code=2).stderr
    kentry(*words, "--bisect", code=128)
    document = json.loads(kentry(*words, "--update", "--json").stdout)
    validate(document, "check-1")
    value = {row["name"]: row["value"] for row in document["rows"]}
    assert file.read_text().splitlines()[2:4] == [
        f"getppid = {value['getppid']} # roomy",
        f"getuid = {value['getuid']} # tight",
    ]
    assert min(value.values()) > 100
    # Measured again, it is what it was; one instruction less is too little.
    kentry(*words, "--fresh")
    less = {"getuid": value["getuid"] - 1, "getppid": value["getppid"]}
    file.write_text("[arm64]\n" + "".join(f"{name} = {most}\n" for name, most in less.items()))
    document = json.loads(kentry(*words, "--json", code=1).stdout)
    assert {row["name"]: row["verdict"] for row in document["rows"]} == {
        "getuid": "over",
        "getppid": "within",
    }
    kentry(*words, "--bisect", code=1)
    kentry(*words, "--bisect", "--case", "getppid")
    kentry(*words, "--bisect", "--timeout", "0.5", "--fresh", code=125)
