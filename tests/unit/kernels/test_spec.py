# SPDX-License-Identifier: GPL-2.0-or-later
"""A spec taken apart: its kind, value and options, and what its kernel is booted on."""

from __future__ import annotations

from pathlib import Path

import pytest

from kentry.errors import UserError
from kentry.kernels.spec import KINDS, parse

# By spec: the value, what is of the kind, and what is booted.
SPECS: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "debian:6.12": ("6.12", {}, {}),
    "debian:6.1.176-1": ("6.1.176-1", {}, {}),
    "debian:6.12.95-1~bpo12+1": ("6.12.95-1~bpo12+1", {}, {}),
    "debian:6.12,flavour=cloud": ("6.12", {"flavour": "cloud"}, {}),
    "deb:a.deb": ("a.deb", {}, {}),
    "image:Image": ("Image", {}, {}),
    "image:Image,config=c,symbols=v": ("Image", {"config": "c", "symbols": "v"}, {}),
    "image:a,b/Image": ("a,b/Image", {}, {}),
    "tree:~/linux@v6.12": ("~/linux@v6.12", {}, {}),
    "source:6.12,compiler=clang-19": ("6.12", {"compiler": "clang-19"}, {}),
    "running": ("", {}, {}),
    " running ": ("", {}, {}),
    "floor:": ("", {}, {}),
    "floor:linux": ("linux", {}, {}),
    "debian:6.12,cpu=cortex-a76": ("6.12", {}, {"cpu": "cortex-a76"}),
    # A comma belongs to the processor, unless an option of the spec follows it.
    "debian:6.12,cpu=max,sve=off,pauth=off": ("6.12", {}, {"cpu": "max,sve=off,pauth=off"}),
    "debian:6.12,cpu=max,flavour=rt": ("6.12", {"flavour": "rt"}, {"cpu": "max"}),
    "debian:6.12,flavour=rt,cpu=max": ("6.12", {"flavour": "rt"}, {"cpu": "max"}),
    'debian:6.12,append="a b"': ("6.12", {}, {"append": "a b"}),
    "debian:6.12,append=pti=on,nosmt": ("6.12", {}, {"append": "pti=on,nosmt"}),
    'image:a,b,cpu=max,sve=off,append="mitigations=auto,nosmt x=1",symbols=c': (
        "a,b",
        {"symbols": "c"},
        {"cpu": "max,sve=off", "append": "mitigations=auto,nosmt x=1"},
    ),
    "running,cpu=skylake": ("", {}, {"cpu": "skylake"}),
    "running,append=console=a:b": ("", {}, {"append": "console=a:b"}),
    "floor:linux,cpu=cortex-a76": ("linux", {}, {"cpu": "cortex-a76"}),
}


@pytest.mark.parametrize("text", SPECS)
def test_takes_a_spec_apart(text: str) -> None:
    spec, (value, options, booted) = parse(text), SPECS[text]
    kind = text.strip().partition(":")[0].partition(",")[0]
    assert (spec.text, spec.kind, spec.value) == (text, kind, value)
    assert (spec.options, spec.booted) == ({**options, **booted}, booted)


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
    "'flavour=' has no value": ("debian:6.12,flavour=",),
    "'cpu=' has no value": ("debian:6.12,cpu=",),
    "not a flavour": ("debian:6.12,flavour=.*",),
    "'symbols=' is given twice": ("image:Image,symbols=a,symbols=b",),
    "'cpu=' is given twice": ("debian:6.12,cpu=max,cpu=cortex-a76",),
    "'append=' is given twice": ("debian:6.12,append=a,cpu=max,append=b",),
    "no option 'symbols='": ("deb:a.deb,symbols=b", "source:6.12,symbols=a", "debian:6,symbols=a"),
    "floor:linux": ("floor:windows",),
    "no option 'config='": ("floor:linux,config=c", "running,config=a"),
    # No processor stands before it that could have it.
    "no option 'append='": ("floor:,append=pti=on",),
    "no option 'flavour='": ("source:6.12,flavour=rt,cpu=max",),
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
