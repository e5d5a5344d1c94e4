# SPDX-License-Identifier: GPL-2.0-or-later
"""How a spec says what a kernel is booted on, and with which words."""

import pytest

from kentry.errors import UserError
from kentry.kernels.spec import parse


@pytest.mark.parametrize(
    ("text", "booted", "options"),
    [
        ("debian:6.12", {}, {}),
        ("debian:6.12,cpu=cortex-a76", {"cpu": "cortex-a76"}, {}),
        # A comma belongs to the processor, unless an option of the spec follows it.
        ("debian:6.12,cpu=max,sve=off", {"cpu": "max,sve=off"}, {}),
        ("debian:6.12,cpu=max,sve=off,pauth=off", {"cpu": "max,sve=off,pauth=off"}, {}),
        ("debian:6.12,cpu=max,flavour=rt", {"cpu": "max"}, {"flavour": "rt"}),
        ("debian:6.12,flavour=rt,cpu=max", {"cpu": "max"}, {"flavour": "rt"}),
        ('debian:6.12,append="a b"', {"append": "a b"}, {}),
        ("debian:6.12,append=pti=on,nosmt", {"append": "pti=on,nosmt"}, {}),
        (
            'image:a,b,cpu=max,sve=off,append="mitigations=auto,nosmt x=1",symbols=c',
            {"cpu": "max,sve=off", "append": "mitigations=auto,nosmt x=1"},
            {"symbols": "c"},
        ),
        ("running,cpu=skylake", {"cpu": "skylake"}, {}),
        ("floor:linux,cpu=cortex-a76", {"cpu": "cortex-a76"}, {}),
    ],
)
def test_what_is_booted_and_what_is_of_the_kind(
    text: str, booted: dict[str, str], options: dict[str, str]
) -> None:
    spec = parse(text)
    assert spec.booted == booted
    others = {name: value for name, value in spec.options.items() if name not in booted}
    assert others == options
    assert spec.value == {"image": "a,b", "floor": "linux", "running": ""}.get(spec.kind, "6.12")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("debian:6.12,cpu=max,cpu=cortex-a76", "'cpu=' is given twice"),
        ("debian:6.12,append=a,cpu=max,append=b", "'append=' is given twice"),
        ("debian:6.12,cpu=", "'cpu=' has no value"),
        # Of another kind, and no processor before it that could have it.
        ("debian:6.12,symbols=a", "no option 'symbols='"),
        ("floor:,append=pti=on", "no option 'append='"),
        ("source:6.12,flavour=rt,cpu=max", "no option 'flavour='"),
    ],
)
def test_what_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        parse(text)
    assert caught.value.remedy
