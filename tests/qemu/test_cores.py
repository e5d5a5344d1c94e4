# SPDX-License-Identifier: GPL-2.0-or-later
"""What a processor makes a kernel execute more, at each entry: Debian's kernels, on two of them.

Figures of a kernel change with the kernel: these are differences, and functions.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .test_record import KERNEL, kentry

pytestmark = pytest.mark.qemu

# The 24 rounds of the loop with what is around them; two switches of CR3.
LOOP, PTI = 80, 10


def recorded(arch: str, *words: str, spec: str = KERNEL) -> dict[str, Any]:
    done = kentry("record", spec, "--arch", arch, "--case", "getppid", "--json", "-q", *words)
    return dict(json.loads(done.stdout))


def count(document: Mapping[str, Any]) -> int:
    return int(document["cases"][0]["metrics"]["instructions"]["value"])


def functions(document: Mapping[str, Any]) -> dict[str, int]:
    return {row["name"]: row["instructions"] for row in document["cases"][0]["functions"]}


def words_of(document: Mapping[str, Any]) -> list[str]:
    return str(document["target"]["mitigations"]).split()


def test_a_cortex_a76_executes_the_loop_over_its_branch_history(tmp_path: Path) -> None:
    of_max, of_core = recorded("arm64"), recorded("arm64", "--cpu", "cortex-a76")
    assert of_max["target"]["processor"] == "max"
    assert of_core["target"]["processor"] == "cortex-a76"
    vectors = "__bp_harden_el1_vectors"
    assert vectors not in functions(of_max)
    assert functions(of_core)[vectors] == LOOP
    # max has pointer authentication, which a Cortex-A76 has not: that is less.
    assert 0 < count(of_core) - count(of_max) < LOOP
    assert "bhb=loop-of-24" in words_of(of_core)
    assert not [word for word in words_of(of_max) if word.startswith("bhb")]
    # The same by the spec; and the kernel can be told not to.
    spec = f"{KERNEL},cpu=cortex-a76"
    assert recorded("arm64", spec=spec)["cases"] == of_core["cases"]
    without = recorded("arm64", spec=f"{spec},append=nospectre_bhb")
    assert vectors not in functions(without) and count(without) < count(of_core) - LOOP
    # Two processors are said before a function is blamed.
    done = kentry("diff", KERNEL, spec, "--arch", "arm64", "--case", "getppid", "-q")
    said, _, table = done.stdout.partition("getppid ")
    assert "two processors" in said and vectors not in said and vectors in table


def test_page_table_isolation_is_a_word_or_a_skylake() -> None:
    of_max = recorded("x86_64")
    isolated = recorded("x86_64", "--append", "pti=on")
    of_core = recorded("x86_64", "--cpu", "Skylake-Server-v1")
    assert count(isolated) - count(of_max) == PTI
    assert count(of_core) > count(isolated)
    assert "meltdown=PTI" in words_of(of_core)
    assert "meltdown=PTI" not in words_of(of_max)
    assert "pti=on" in isolated["target"]["cmdline"].split()
    switches = [
        sum("cr3" in insn[2] for insn in document["code"]["instructions"])
        for document in (of_max, isolated, of_core)
    ]
    assert switches[0] == 0 and switches[1] == switches[2] > 0


def test_a_core_is_priced_on_the_path_that_it_executes() -> None:
    own = recorded("arm64", "--core", "cortex-a76,apple-m1")
    kept = recorded("arm64", "--core", "cortex-a76,apple-m1", "--cpu", "max")
    for document, processor, elsewhere in (
        (own, "cortex-a76", "apple-m1"),
        (kept, "max", "cortex-a76 or apple-m1"),
    ):
        assert document["target"]["processor"] == processor
        (said,) = (one for one in document["caveats"] if one["kind"] == "other-processor")
        assert f"recorded on {processor}, and on {elsewhere} the kernel" in said["text"]
    on_own, on_max = (document["cases"][0]["estimates"][0]["model"] for document in (own, kept))
    # 167 and 142 on 6.12.117: the loop's 80 instructions less what max has of pointer
    # authentication.
    assert on_max * 1.1 < on_own < on_max * 1.3
