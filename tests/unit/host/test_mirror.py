# SPDX-License-Identifier: GPL-2.0-or-later
"""Which mirror is used, and whose signature it carries."""

import os
from pathlib import Path

import pytest

from kentry.errors import MissingToolError, UserError
from kentry.host import apt as mirror
from tests.processes import script


@pytest.fixture(autouse=True)
def no_mirror_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(mirror.MIRROR_VARIABLE, raising=False)
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setenv(mirror.KEYRING_VARIABLE, str(keyring))


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a fake apt-get prints."""
    out = tmp_path / "targets"
    out.touch()
    program = script(tmp_path / "bin/apt-get", f"[ $1 = indextargets ] && cat {out}")
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return out


def test_debians_own_and_the_security_one(targets: Path) -> None:
    targets.write_text(
        "https://other.example/apt|Other|Other|stable\n"
        "https://d.example/debian/|Debian|Debian|bookworm\n"
        "https://s.example/sec/|Debian|Debian-Security|bookworm-security\n"
    )
    found = mirror.find_mirror()
    assert (found.base, found.security) == (
        "https://d.example/debian/",
        "https://s.example/sec/",
    )
    # Before apt's first update the suite tells.
    targets.write_text("https://d.example/debian/|$(ORIGIN)|$(LABEL)|trixie\n")
    assert mirror.find_mirror().base == "https://d.example/debian/"


def test_none_of_debian_is_an_error_that_names_the_variable(targets: Path) -> None:
    targets.write_text("https://u.example/ubuntu/|Ubuntu|Ubuntu|noble\n")
    with pytest.raises(UserError) as raised:
        mirror.find_mirror()
    assert "no Debian mirror" in raised.value.sentence
    assert "KENTRY_MIRROR" in raised.value.remedy


def test_the_variable_names_one_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, "https://d.example/debian https://s.example/sec")
    assert mirror.find_mirror().security == "https://s.example/sec"
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, "https://d.example/debian")
    assert mirror.find_mirror().security is None


@pytest.mark.parametrize(
    "value", ["*", "-h", "~/", "http:", "http://a http://b http://c", "http://h\udcff\udcfe/d"]
)
def test_a_word_that_is_no_mirror_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, value)
    with pytest.raises(UserError) as raised:
        mirror.find_mirror()
    assert mirror.MIRROR_VARIABLE in raised.value.remedy


def test_without_a_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(mirror.KEYRING_VARIABLE)
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, "https://d.example/debian")
    monkeypatch.setattr(mirror, "_KEYRING", tmp_path / "keyring.gpg")
    assert mirror.find_mirror().keyring == tmp_path / "keyring.gpg"
    (tmp_path / "keyring.gpg").unlink()
    with pytest.raises(MissingToolError, match="debian-archive-keyring"):
        mirror.find_mirror()
    monkeypatch.setenv(mirror.KEYRING_VARIABLE, "/nonexistent.gpg")
    with pytest.raises(UserError, match="KENTRY_KEYRING.*/nonexistent.gpg"):
        mirror.find_mirror()
