# SPDX-License-Identifier: GPL-2.0-or-later
"""What is asked of Kconfig, what it dropped and why, and the options of kentry ablate."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kentry.arch import ARCHES, Arch
from kentry.errors import UserError
from kentry.kernels import config
from kentry.kernels.config import Config, Option, entry_options, parse_options
from tests.unit.kernels.sources import put, write

FOLDER = Path(config.__file__).parent / "configs"


@pytest.fixture(params=ARCHES.values(), ids=lambda arch: arch.name)
def arch(request: pytest.FixtureRequest) -> Arch:
    found: Arch = request.param
    return found


def test_a_config_is_read_as_kconfig_writes_it() -> None:
    text = (
        "#\n# Automatically generated file; DO NOT EDIT.\n#\n"
        'CONFIG_A=y\nCONFIG_B=m\r\n# CONFIG_C is not set\n  CONFIG_D="a b=c"  \nCONFIG_E=0x1f\n'
        "#CONFIG_F=y\n# CONFIG_G=y\nCONFIG_H\n# CONFIG_A is not set at all\nA=y\nCONFIG_\n"
        "CONFIG_I=y\n# CONFIG_I is not set\n"
    )
    expected = {"A": "y", "B": "m", "C": "n", "D": '"a b=c"', "E": "0x1f", "I": "n"}
    assert config.read(text) == {f"CONFIG_{name}": value for name, value in expected.items()}


@pytest.mark.parametrize(
    "text",
    [
        *("", "A=y", "CONFIG_A", "CONFIG_A=", "CONFIG_=y", "CONFIG_A=y ", " CONFIG_A=y"),
        *("CONFIG_A=y\n", "CONFIG_A=y\nCONFIG_B=y", 'CONFIG_A="a"b"', 'CONFIG_A="a\nb"'),
        *("config_a=y", "CONFIG_A=a b", "CONFIG_A=$(x)", "CONFIG_A=`x`", "CONFIG_Ä=y"),
        *("CONFIG_A;=y", 'CONFIG_A="a\\"', "CONFIG_A=y#", "-CONFIG_A=y"),
    ],
)
def test_what_sets_no_option(text: str) -> None:
    with pytest.raises(UserError) as raised:
        config.parse_set(text)
    assert "--config CONFIG_SECCOMP=y" in raised.value.remedy


def test_every_optional_is_right_above_its_option(arch: Arch) -> None:
    text = "".join(file.read_text() for file in FOLDER.glob("*.config"))
    marked = set(re.findall(r"^# optional: .+\n(CONFIG_\w+)=", text, re.MULTILINE))
    assert len(marked) == text.lower().count("# optional") > 0
    assert not config.tiny(arch, config.USERLAND).strict & marked


def test_a_user_space_needs_all_that_a_probe_does_and_more(arch: Arch) -> None:
    tiny, wanted = config.tiny(arch), config.tiny(arch, config.USERLAND)
    assert not wanted.whole and not tiny.whole and not tiny.named
    assert tiny.strict <= tiny.options.keys()
    assert tiny.options["CONFIG_EXPERT"] == tiny.options["CONFIG_SMP"] == "y"
    assert tiny.options.items() < wanted.options.items()
    assert tiny.strict < wanted.strict
    # systemd stops at once without these.
    needed = {"CGROUPS", "INOTIFY_USER", "SIGNALFD", "TIMERFD", "EPOLL", "UNIX", "PROC_FS"}
    assert {f"CONFIG_{name}" for name in needed | {"FHANDLE", "TMPFS"}} <= wanted.strict
    assert (wanted.btf, tiny.btf) == (True, False)
    own = {name for name in wanted.options if name.startswith("CONFIG_RTC_DRV_")}
    assert len(own) == 1


def test_a_distributions_config_without_modules_and_drivers(arch: Arch) -> None:
    text = (
        "CONFIG_AUDIT=y\nCONFIG_EXT4_FS=m\nCONFIG_USB_SUPPORT=y\nCONFIG_MODULES=y\nCONFIG_HZ=250\n"
        "# CONFIG_KALLSYMS is not set\nCONFIG_DEVTMPFS=m\n# CONFIG_PREEMPT is not set\n"
    )
    wanted = config.distro(text, arch)
    assert wanted.whole
    off = dict.fromkeys(("EXT4_FS", "USB_SUPPORT", "MODULES", "EXPERT", "PREEMPT"), "n")
    expected = {"AUDIT": "y", "HZ": "250", "KALLSYMS": "y", "DEVTMPFS": "y", **off}
    for name, value in expected.items():
        assert wanted.options[f"CONFIG_{name}"] == value
    assert "m" not in wanted.options.values()
    assert "CONFIG_KALLSYMS" in wanted.strict
    assert not {"CONFIG_EXPERT", "CONFIG_AUDIT", "CONFIG_EXT4_FS"} & wanted.strict
    assert config.distro("CONFIG_EXPERT=y\n", arch).options["CONFIG_EXPERT"] == "y"


def test_a_users_config_must_come_out_as_it_is(tmp_path: Path) -> None:
    text = 'CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_CC_VERSION_TEXT="x"\nCONFIG_M=m\n'
    file = put(tmp_path / "dot-config", text)
    wanted = config.of_file(str(file))
    assert wanted.whole
    assert wanted.options["CONFIG_CC_VERSION_TEXT"] == '"x"'
    assert wanted.strict == {"CONFIG_A", "CONFIG_M"}
    # What Kconfig turns on by default is not the user's mistake.
    got = {"CONFIG_A": "y", "CONFIG_B": "y", "CONFIG_CC_VERSION_TEXT": '"z"', "CONFIG_M": "m"}
    assert config.dropped(wanted, got) == []
    assert config.dropped(wanted, {**got, "CONFIG_M": "y"}) == ["CONFIG_M"]


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\0", b"no option\n"])
def test_a_config_that_cannot_be_used(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError) as raised:
        config.of_file(str(file))
    assert str(file) in raised.value.sentence
    assert "--config tiny" in raised.value.remedy
    with pytest.raises(UserError, match=tmp_path.name):
        config.of_file(str(tmp_path))


def test_what_a_user_sets_goes_on_top_and_nothing_may_drop_it() -> None:
    base = Config({"CONFIG_A": "y", "CONFIG_B": "y"}, False, frozenset({"CONFIG_A", "CONFIG_B"}))
    wanted = config.with_sets(base, ["CONFIG_B=n", "CONFIG_C=1", "CONFIG_C=2"])
    assert wanted.options == {"CONFIG_A": "y", "CONFIG_B": "n", "CONFIG_C": "2"}
    assert wanted.named == {"CONFIG_B", "CONFIG_C"}
    assert wanted.strict == {"CONFIG_A"}
    assert config.dropped(wanted, {}) == ["CONFIG_A", "CONFIG_C"]
    assert config.dropped(wanted, wanted.options) == []
    assert config.dropped(wanted, {"CONFIG_A": "y", "CONFIG_B": "y"}) == ["CONFIG_B", "CONFIG_C"]
    assert config.with_sets(base, []) == base
    with pytest.raises(UserError):
        config.with_sets(base, ["CONFIG_B"])


def test_a_few_dropped_options_are_named_and_the_rest_counted() -> None:
    names = [f"CONFIG_{letter}" for letter in "ABCDEFG"]
    wanted = Config(dict.fromkeys(names, "y"), whole=False)
    error = config.dropped_error(names, wanted, dict.fromkeys(names, "needs X"))
    assert "CONFIG_A=y (needs X), CONFIG_B=y" in error.sentence
    assert error.sentence.endswith("CONFIG_E=y (needs X) and 2 more.")
    assert "--config" in error.remedy


def test_what_needs_an_option_that_was_turned_off_is_given_up() -> None:
    wanted = Config({"CONFIG_A": "n", "CONFIG_B": "y", "CONFIG_C": "y"}, whole=False)
    wanted = config.with_sets(wanted, ["CONFIG_A=n", "CONFIG_C=y"])
    assert config.given_up("CONFIG_B", wanted, "needs A")
    assert not config.given_up("CONFIG_B", wanted, "needs AB")
    assert not config.given_up("CONFIG_C", wanted, "needs A")


def test_options_on_the_command_line_or_in_a_file(tmp_path: Path) -> None:
    assert parse_options("CONFIG_A,CONFIG_HZ=250") == [
        Option("CONFIG_A"),
        Option("CONFIG_HZ", "250"),
    ]
    text = (
        "# a comment\n\nCONFIG_A\n  CONFIG_B=m   with CONFIG_NET CONFIG_C=2 # why\nCONFIG_D with\n"
    )
    needs = ("CONFIG_NET=y", "CONFIG_C=2")
    listed = [Option("CONFIG_A"), Option("CONFIG_B", "m", needs), Option("CONFIG_D")]
    assert parse_options(str(put(tmp_path / "list", text))) == listed


@pytest.mark.parametrize(
    "text",
    [
        *("CONFIG_A,", "CONFIG_A,,CONFIG_B", "CONFIG_A=", "CONFIG_A,B", "CONFIG_A=n", "CONFIG_"),
        *("CONFIG_A CONFIG_B", "CONFIG_A without CONFIG_B", "CONFIG_A with B", "CONFIG_A=$(x)"),
    ],
)
def test_what_is_not_understood_is_shown_how(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_options(text)
    assert raised.value.remedy
    if "," not in text:
        with pytest.raises(UserError):
            parse_options(str(put(tmp_path / "list", f"{text}\n")))


@pytest.mark.parametrize("content", [None, b"", b"# nothing\n", b"\xff\xfe"])
def test_a_list_that_names_nothing(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "list").write_bytes(content)
    with pytest.raises(UserError) as raised:
        parse_options(str(tmp_path / "list"))
    assert str(tmp_path / "list") in raised.value.sentence
    assert raised.value.remedy


def test_the_options_that_come_with_kentry() -> None:
    found = entry_options()
    names = [option.name for option in found]
    assert len(set(names)) == len(names) > 30
    assert "CONFIG_SECCOMP" in names
    for option in found:
        assert option.name not in [need.partition("=")[0] for need in option.needs]


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
config AUDIT
	bool "Auditing"
	depends on NET && (PROC || SYSFS)
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
KCONFIG += "".join(f'config {name}\n\tbool "{name}"\n' for name in ("NET", "PROC", "SYSFS", "HASH"))
ARCH_KCONFIG = "config ARM64\n\tdef_bool y\n"
DOT_CONFIG = """\
# CONFIG_MODULES is not set
CONFIG_SYSFS=y
CONFIG_CRYPTO=y
CONFIG_HASH=y
CONFIG_LEVEL=9
CONFIG_PREEMPT_NONE=y
"""


def reasons(folder: Path, *wanted: str, text: str = KCONFIG) -> dict[str, str]:
    files = {"Kconfig": text, "arch/arm64/Kconfig": ARCH_KCONFIG, "dot-config": DOT_CONFIG}
    write(folder, files)
    env = {"PATH": os.environ["PATH"], "srctree": str(folder), "PYTHONWARNINGS": "ignore"}
    env |= {"ARCH": "arm64", "SRCARCH": "arm64", "CC": "gcc", "KERNELVERSION": "6.12"}
    words = [str(folder), str(folder / "dot-config"), *wanted]
    argv = [sys.executable, "-m", "kentry.kernels.kconfig", *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


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
