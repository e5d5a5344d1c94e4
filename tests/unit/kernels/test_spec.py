# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest

from kentry.errors import UserError
from kentry.kernels.spec import KINDS, Spec, parse


@pytest.mark.parametrize(
    ("text", "kind", "value", "options"),
    [
        ("debian:6.12", "debian", "6.12", {}),
        ("debian:6.1.176-1", "debian", "6.1.176-1", {}),
        ("debian:6.12.95-1~bpo12+1", "debian", "6.12.95-1~bpo12+1", {}),
        ("debian:6.12,flavour=cloud", "debian", "6.12", {"flavour": "cloud"}),
        ("deb:a.deb", "deb", "a.deb", {}),
        ("image:Image", "image", "Image", {}),
        (
            "image:Image,config=c,symbols=vmlinux",
            "image",
            "Image",
            {"config": "c", "symbols": "vmlinux"},
        ),
        ("image:a,b/Image", "image", "a,b/Image", {}),
        ("tree:~/linux@v6.12", "tree", "~/linux@v6.12", {}),
        ("source:6.12,compiler=clang-19", "source", "6.12", {"compiler": "clang-19"}),
        ("running", "running", "", {}),
        (" running ", "running", "", {}),
        ("floor:", "floor", "", {}),
        ("floor:linux", "floor", "linux", {}),
    ],
)
def test_takes_a_spec_apart(text: str, kind: str, value: str, options: dict[str, str]) -> None:
    assert parse(text) == Spec(text, kind, value, options)


def test_every_example_is_a_spec() -> None:
    for kind in KINDS.values():
        assert parse(kind.example).kind == kind.name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Unknown kernel spec"),
        ("6.12", "Unknown kernel spec"),
        ("fedora:40", "debian:6.12"),
        ("debian:", "names no kernel"),
        ("debian", "names no kernel"),
        ("debian:six", "not a Debian package version"),
        ("debian:6.12;rm", "not a Debian package version"),
        ("debian:../6", "not a Debian package version"),
        ("debian:6.12,cloud", "flavour=cloud"),
        ("debian:6.12,flavor=cloud", "flavour="),
        ("debian:6.12,flavour=", "has no value"),
        ("debian:6.12,flavour=.*", "not a flavour"),
        ("image:Image,symbols=a,symbols=b", "given twice"),
        ("deb:a.deb,symbols=b", "has no option 'symbols='"),
        ("floor:windows", "floor:linux"),
        ("floor:linux,config=c", "has no option 'config='"),
        ("running:now", "takes nothing"),
        ("running,config=a", "has no option"),
        ("tree:", "names no kernel"),
        ("source:6.12,symbols=a", "has no option 'symbols='"),
    ],
)
def test_a_bad_spec_is_one_sentence_and_a_remedy(text: str, words: str) -> None:
    with pytest.raises(UserError) as raised:
        parse(text)
    assert words in str(raised.value)
    assert raised.value.remedy
    assert raised.value.exit_code == 2


def test_a_file_without_its_kind_is_shown_how(tmp_path: Path) -> None:
    image = tmp_path / "Image"
    image.touch()
    with pytest.raises(UserError) as raised:
        parse(str(image))
    assert f"image:{image}" in raised.value.remedy


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    spec = parse("image:~/Image,symbols=~/vmlinux")
    assert spec.path() == Path("/home/someone/Image")
    assert spec.path("symbols") == Path("/home/someone/vmlinux")
