# SPDX-License-Identifier: GPL-2.0-or-later
"""Which mirror is used, and whose signature it carries."""

import re
import shutil
from pathlib import Path

import pytest

from kentry.errors import UserError
from kentry.host import mirror
from kentry.host.process import run


@pytest.fixture(autouse=True)
def apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of this machine's apt, which names no mirror."""
    for name in (mirror.MIRROR_VARIABLE, mirror.KEYRING_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(mirror, "_APT", tmp_path / "apt")
    (tmp_path / "apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "apt/apt.conf.d").mkdir()
    return tmp_path / "apt"


LINES = """\
# deb http://comment.example/debian bookworm main
deb-src http://source.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/other.gpg] https://other.example/apt bookworm main
deb https://parts.example/apt bookworm stable
deb mirror+file:/etc/apt/list bookworm main
deb http://u.example/ubuntu noble main
deb [arch=amd64] http://l.example/debian/ bookworm main contrib
"""
PARTS = """\
# A comment.
Types: deb deb-src
# Another.
URIs: https://d.example/debian https://e.example/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://s.example/sec
Suites: trixie-security
Components: main

Enabled: no
Types: deb
URIs: https://off.example/sec
Suites: bookworm-security
Components: main
"""


@pytest.mark.parametrize(
    ("files", "base", "security"),
    [
        ({"sources.list": LINES}, "http://l.example/debian", None),
        ({"sources.list.d/a.list": LINES}, "http://l.example/debian", None),
        ({"sources.list.d/a.sources": PARTS}, "https://d.example/debian", "https://s.example/sec"),
        (
            {"sources.list": LINES, "sources.list.d/a.sources": PARTS},
            "http://l.example/debian",
            "https://s.example/sec",
        ),
        # Debian's own.  A security mirror alone is not a mirror.
        ({}, "https://deb.debian.org/debian", "https://deb.debian.org/debian-security"),
        (
            {"sources.list.d/a.sources": PARTS.partition("\n\n")[2]},
            "https://deb.debian.org/debian",
            "https://deb.debian.org/debian-security",
        ),
    ],
)
def test_the_mirror_of_apt(
    apt: Path, files: dict[str, str], base: str, security: str | None
) -> None:
    for name, text in files.items():
        (apt / name).write_text(text)
    found = mirror.find_mirror()
    assert (found.base, found.security) == (base, security)


@pytest.mark.parametrize(
    ("text", "proxies", "checks"),
    [
        ("", {}, True),
        ('Acquire::http::Proxy "http://p:1";', {"http": "http://p:1", "https": "http://p:1"}, True),
        (
            'Acquire {\n http::Proxy "http://p:1";\n https::Proxy "DIRECT";\n}',
            {"http": "http://p:1"},
            True,
        ),
        ('// Acquire::http::Proxy "http://p:1";\nAcquire::Check-Date "No";', {}, False),
        ('Acquire::Check-Valid-Until "false";\nAcquire::Check-Valid-Until "true";', {}, True),
    ],
)
def test_the_settings_of_apt(apt: Path, text: str, proxies: dict[str, str], checks: bool) -> None:
    (apt / "apt.conf.d/50").write_text(text)
    found = mirror.find_mirror()
    assert (found.proxies, found.checks_dates) == (proxies, checks)


def test_the_variable_names_one_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    for security in ("https://s.example/sec", None):
        monkeypatch.setenv(mirror.MIRROR_VARIABLE, f"https://d.example/debian {security or ''}")
        assert mirror.find_mirror().security == security


@pytest.mark.parametrize(
    "value", ["*", "-h", "~/", "http:", "http://a http://b http://c", "http://h\udcff\udcfe/d"]
)
def test_a_word_that_is_no_mirror_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, value)
    with pytest.raises(UserError) as raised:
        mirror.find_mirror()
    assert mirror.MIRROR_VARIABLE in raised.value.remedy


def test_which_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines, ours = tmp_path / "keyring.gpg", mirror._KEYRINGS[1]
    machines.touch()
    monkeypatch.setattr(mirror, "_KEYRINGS", (machines, ours))
    assert mirror.find_mirror().keyring == machines
    machines.unlink()
    assert mirror.find_mirror().keyring == ours
    monkeypatch.setenv(mirror.KEYRING_VARIABLE, "/nonexistent.gpg")
    with pytest.raises(UserError, match="KENTRY_KEYRING.*/nonexistent.gpg"):
        mirror.find_mirror()


def test_the_keys_that_come_with_kentry_are_those_that_their_page_lists() -> None:
    if not shutil.which("gpg"):
        pytest.skip("gpg is not installed: apt-get install gpg")
    keyring = mirror._KEYRINGS[1]
    shown = run(["gpg", "--show-keys", "--with-colons", str(keyring)]).stdout
    primary = re.findall(r"^pub:.*\n(?:rvk.*\n)*fpr:+([0-9A-F]+):", shown, re.MULTILINE)
    page = (keyring.parent / "README.md").read_text(encoding="utf-8")
    listed = [words.replace(" ", "") for words in re.findall(r"`([0-9A-F ]{49,50})`", page)]
    assert sorted(primary) == sorted(listed) and len(primary) == 9
    # Every one that is there vouches for itself.
    assert not re.search(r"^pub:[ir]", shown, re.MULTILINE)
