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
        ("image:Image,config=c,symbols=v", "image", "Image", {"config": "c", "symbols": "v"}),
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


BAD = {
    "Unknown kernel spec": ("", "6.12"),
    "debian:6.12": ("fedora:40",),
    "names no kernel": ("debian:", "debian", "tree:"),
    "not a Debian package version": ("debian:six", "debian:6.12;rm", "debian:../6"),
    "flavour=cloud": ("debian:6.12,cloud",),
    "flavour=": ("debian:6.12,flavor=cloud",),
    "has no value": ("debian:6.12,flavour=",),
    "not a flavour": ("debian:6.12,flavour=.*",),
    "given twice": ("image:Image,symbols=a,symbols=b",),
    "has no option 'symbols='": ("deb:a.deb,symbols=b", "source:6.12,symbols=a"),
    "floor:linux": ("floor:windows",),
    "has no option 'config='": ("floor:linux,config=c", "running,config=a"),
    "takes nothing": ("running:now",),
}


@pytest.mark.parametrize(
    ("text", "words"), [(text, words) for words, texts in BAD.items() for text in texts]
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
