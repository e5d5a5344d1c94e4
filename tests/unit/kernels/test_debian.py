# SPDX-License-Identifier: GPL-2.0-or-later
"""Which package a version means; the fetch itself is in tests/unit/test_apt.py."""

from __future__ import annotations

import pytest

from kentry.host.apt import Candidate
from kentry.kernels import debian
from tests.unit.kernels import fakes


def candidate(package: str, version: str) -> Candidate:
    return Candidate(package, version, f"pool/{package}.deb", "0" * 64, 1, "bookworm", "arm64")


CANDIDATES = [
    candidate(package, version)
    for package, version in (
        ("linux-image-6.1.0-9-arm64", "6.1.27-1"),
        ("linux-image-6.1.0-47-arm64", "6.1.170-3"),
        ("linux-image-6.1.0-47-arm64-dbg", "6.1.170-3"),
        ("linux-image-6.1.0-48-arm64-unsigned", "6.1.172-1"),
        ("linux-image-6.1.0-48-rt-arm64", "6.1.172-1"),
        ("linux-image-6.1.0-48-cloud-arm64", "6.1.172-1"),
        ("linux-image-6.1.0-0.deb11.5-arm64", "6.1.12-1~bpo11+1"),
        ("linux-image-6.12.95+deb12-arm64", "6.12.95-1~bpo12+1"),
        ("linux-image-6.12.100+deb12-arm64", "6.12.100-1~bpo12+1"),
        ("linux-image-6.12.100+deb12-arm64-16k", "6.12.100-1~bpo12+1"),
        ("linux-image-6.12-arm64", "6.12.100-1~bpo12+1"),
        ("linux-image-arm64", "6.12.100-1~bpo12+1"),
        ("linux-image-6.19.1+deb13-arm64", "6.19.1-1"),
        ("linux-binary-6.19.1+deb13-arm64", "6.19.1-1"),
        ("linux-base-6.19.1+deb13-arm64", "6.19.1-1"),
    )
]


@pytest.mark.parametrize(
    ("wanted", "flavour", "package"),
    [
        ("6.1", None, "linux-image-6.1.0-47-arm64"),
        ("6.12", None, "linux-image-6.12.100+deb12-arm64"),
        ("6", None, "linux-image-6.19.1+deb13-arm64"),
        ("6.12.95", None, "linux-image-6.12.95+deb12-arm64"),
        ("6.12.95-1~bpo12+1", None, "linux-image-6.12.95+deb12-arm64"),
        ("6.1.27", None, "linux-image-6.1.0-9-arm64"),
        # As uname -r has it.
        ("6.1.0-9", None, "linux-image-6.1.0-9-arm64"),
        ("6.1", "rt", "linux-image-6.1.0-48-rt-arm64"),
        ("6.1", "cloud", "linux-image-6.1.0-48-cloud-arm64"),
        ("6.1", "cloud-arm64", "linux-image-6.1.0-48-cloud-arm64"),
        ("6.1", "arm64", "linux-image-6.1.0-47-arm64"),
        ("6.12", "16k", "linux-image-6.12.100+deb12-arm64-16k"),
        ("6.1.2", None, None),
        ("6.1.0-4", None, None),
        ("6.12.9", None, None),
        ("6.13", None, None),
        ("6.12", "cloud", None),
        # A dot is a dot.
        ("6.1+170", None, None),
    ],
)
def test_the_newest_version_that_begins_so(
    wanted: str, flavour: str | None, package: str | None
) -> None:
    pattern = debian.name_pattern(fakes.ARM64, flavour)
    chosen = debian.select(CANDIDATES, wanted, pattern)
    assert (chosen.package if chosen else None) == package


def test_versions_are_ordered_as_debian_orders_them() -> None:
    name = "linux-image-6.12.90+deb13-arm64"
    versions = ["6.12.90-1~bpo12+1", "6.12.90-1", "6.12.90-2~rc1"]
    found = [candidate(name, version) for version in versions]
    chosen = debian.select(found, "6.12", debian.name_pattern(fakes.ARM64, None))
    assert chosen == found[2]


def test_a_kernel_may_be_in_two_packages() -> None:
    pattern = debian.name_pattern(fakes.ARM64, None)
    split = debian.select(CANDIDATES, "6.19", pattern)
    whole = debian.select(CANDIDATES, "6.12", pattern)
    assert split
    assert whole
    assert [part.package for part in debian.kernel_parts(CANDIDATES, split)] == [
        "linux-binary-6.19.1+deb13-arm64",
        "linux-base-6.19.1+deb13-arm64",
    ]
    assert debian.kernel_parts(CANDIDATES, whole) == (whole,)
