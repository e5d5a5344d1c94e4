# SPDX-License-Identifier: GPL-2.0-or-later
"""Why an option was dropped, as the program of its own says it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KCONFIG = """\
mainmenu "A test of Linux $(KERNELVERSION) for $(ARCH)"
config CC_VERSION_TEXT
	string
	default "$(shell,echo $(CC))"
config MODULES
	bool "Modules"
	modules
	help
		Lets options be
		modules
source "arch/$(SRCARCH)/Kconfig"
config NET
	bool "Networking"
config AUDIT
	bool "Auditing"
	depends on NET && (PROC || SYSFS)
config PROC
	bool "proc"
config SYSFS
	bool "sysfs"
config HASH
	bool "Hashes"
config CRYPTO
	bool "Cryptography"
	select HASH
	select HELPER
config HELPER
	bool
config OLD_NAME
	bool
	transitional
	help
		Only the old name.
config NEW_NAME
	bool "A new name"
	default OLD_NAME
config LEVEL
	int "A level"
	range 1 9
	default 5
config DRIVER
	tristate "A driver"
config ALWAYS
	def_bool y
choice
	prompt "Preemption"
	default PREEMPT_NONE
config PREEMPT_NONE
	bool "None"
config PREEMPT
	bool "Full"
endchoice
"""
ARCH_KCONFIG = """\
config ARM64
	def_bool y
"""
DOT_CONFIG = """\
# CONFIG_MODULES is not set
CONFIG_SYSFS=y
CONFIG_CRYPTO=y
CONFIG_HASH=y
CONFIG_LEVEL=9
CONFIG_PREEMPT_NONE=y
"""


def reasons(folder: Path, *wanted: str, text: str = KCONFIG) -> dict[str, str]:
    (folder / "arch/arm64").mkdir(parents=True)
    (folder / "Kconfig").write_text(text)
    (folder / "arch/arm64/Kconfig").write_text(ARCH_KCONFIG)
    (folder / "dot-config").write_text(DOT_CONFIG)
    env = {"PATH": os.environ["PATH"], "srctree": str(folder), "PYTHONWARNINGS": "ignore"}
    env |= {"ARCH": "arm64", "SRCARCH": "arm64", "CC": "gcc", "KERNELVERSION": "6.12"}
    words = [str(folder), str(folder / "dot-config"), *wanted]
    argv = [sys.executable, "-m", "kentry.kernels.kconfig", *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_each_kind_of_reason(tmp_path: Path) -> None:
    expected = {
        "CONFIG_AUDIT=y": "needs NET",
        "CONFIG_NOTHING=y": "this tree has no such option",
        "CONFIG_HASH=n": "selected by CRYPTO",
        "CONFIG_HELPER=n": "selected by CRYPTO",
        "CONFIG_ALWAYS=n": "on by default, and cannot be set by hand",
        "CONFIG_PREEMPT_NONE=n": "one option of its choice must be on: set another",
        "CONFIG_DRIVER=m": "needs MODULES, and to be an option that can be a module",
        "CONFIG_PREEMPT=y": "another option of its choice is on: PREEMPT_NONE",
        "CONFIG_OLD_NAME=y": "cannot be set by hand: other options select it",
        "CONFIG_LEVEL=10": "became 9",
    }
    assert reasons(tmp_path, *expected) == {
        name.partition("=")[0]: why for name, why in expected.items()
    }


def test_every_unmet_term_is_named(tmp_path: Path) -> None:
    text = KCONFIG.replace("(PROC || SYSFS)", "(PROC || !SYSFS) && ARM64 && LEVEL < 3")
    found = reasons(tmp_path, "CONFIG_AUDIT=y", text=text)
    assert found == {"CONFIG_AUDIT": "needs NET and PROC || !SYSFS and LEVEL < 3"}


@pytest.mark.parametrize(
    "text",
    [
        KCONFIG.replace("\tmodules\n", "\toption modules\n"),
        KCONFIG.replace("\ttransitional\n", ""),
        KCONFIG.replace("\ttransitional\n", "\n    transitional\n\n"),
    ],
)
def test_kconfig_as_older_and_newer_kernels_have_it(tmp_path: Path, text: str) -> None:
    assert reasons(tmp_path, "CONFIG_AUDIT=y", text=text) == {"CONFIG_AUDIT": "needs NET"}
