# SPDX-License-Identifier: GPL-2.0-or-later
"""A root file system of two small packages, and when it is made again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kentry.arch import Arch, find_arch
from kentry.boot.guest_tasks import TracedWorkload
from kentry.boot.userland import root_image
from kentry.boot.userland.root_image import Package, build_userland, check_machine
from kentry.boot.userland.workloads import BOOT, Copy, Workload, find_workload
from kentry.errors import UserError
from kentry.host.apt import RELEASES, Release
from kentry.host.native import runner_file
from kentry.progress import Update
from tests.unit.boot.userland.conftest import rows
from tests.unit.kernels import fakes
from tests.unit.kernels.conftest import Said

ARM64 = find_arch("arm64")
MEMORY = 512


@pytest.fixture(autouse=True)
def fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What was fetched, each time; the packages are dash and systemd's unit folder."""
    made: list[tuple[str, ...]] = []
    unit = b"[Install]\nWantedBy=multi-user.target\n"
    contents = {
        "dash": {"./bin/dash": b"x" * 1000, "./usr/share/doc/dash/copyright": b"y"},
        "units": {"./lib/systemd/system/cron.service": unit},
    }

    @contextlib.contextmanager
    def fetched(
        arch: Arch, release: Release, names: Sequence[str], update: Update
    ) -> Iterator[tuple[Package, ...]]:
        made.append(tuple(names))
        yield tuple(
            Package(name, "1", fakes.deb(tmp_path / f"{name}.deb", files, Package=name))
            for name, files in contents.items()
        )

    monkeypatch.setattr(root_image, "fetched", fetched)
    return made


def make(workload: Workload, said: Said, memory: int = MEMORY) -> TracedWorkload:
    return build_userland(ARM64, workload, RELEASES[0], memory, said)


def test_what_an_image_holds(said: Said, tmp_path: Path, fetches: list[tuple[str, ...]]) -> None:
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/file").write_text("content")
    userland = make(find_workload(["ls", "-l"], [Copy(folder, "/data")], ["acl"]), said)
    assert fetches == [("acl",)]
    found = rows([userland.initramfs.read_bytes()])
    assert found["init"].data == found["kentry/runner"].data == runner_file(ARM64).read_bytes()
    assert found["init"].mode & 0o777 == 0o755
    words = b'run\0/bin/sh\0-c\0exec "$@"\0sh\0ls\0-l\0'
    assert found["kentry/workload"].data == words
    assert found["kentry/prepare"].data == b"set -e\nldconfig\n"
    assert found["data/sub/file"].data == b"content"
    assert "usr/share/doc/dash/copyright" not in found
    assert userland.words == ()
    described = userland.description
    assert described["initramfs_bytes"] == userland.initramfs.stat().st_size
    assert described["command"][-2:] == ["ls", "-l"]
    assert (described["name"], described["release"]) == ("command", "bookworm")
    assert described["packages"] == {"dash": "1", "units": "1"}


def test_a_copy_into_a_folder_keeps_its_name_and_mode(said: Said, tmp_path: Path) -> None:
    program = tmp_path / "once"
    program.write_text("x")
    program.chmod(0o700)
    copies = [Copy(program, "/usr/bin"), Copy(program, "/")]
    found = rows([make(find_workload(["true"], copies), said).initramfs.read_bytes()])
    assert found["usr/bin/once"].mode == found["once"].mode == 0o100700


def test_systemd_takes_the_runners_place_as_init(said: Said) -> None:
    userland = make(BOOT, said)
    found = rows([userland.initramfs.read_bytes()])
    assert found["kentry/workload"].data == b"exec\0/usr/lib/systemd/systemd\0"
    wants = "etc/systemd/system/multi-user.target.wants"
    assert {f"{wants}/cron.service", f"{wants}/kentry-end.service"} <= set(found)
    assert userland.words == ("TERM=dumb",)


def test_an_image_is_made_once_for_the_same_input(
    said: Said, tmp_path: Path, fetches: list[tuple[str, ...]], cache: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("one")
    workload = find_workload(["true"], [Copy(program, "/root/program")])
    first = make(workload, said)
    assert make(workload, said) == first
    assert len(fetches) == 1
    program.write_text("two")
    assert make(workload, said).initramfs != first.initramfs
    program.write_text("one")
    assert make(workload, said) == first
    assert len(fetches) == 2
    # What has been cut short since is made again, the same.
    content = first.initramfs.read_bytes()
    first.initramfs.write_bytes(content[:100])
    assert make(workload, said) == first
    assert first.initramfs.read_bytes() == content
    assert not list(cache.rglob("*.part"))


def test_an_image_too_big_for_the_guest_is_an_error(said: Said) -> None:
    workload = replace(find_workload(["true"]), room=100)
    with pytest.raises(UserError, match="does not fit") as raised:
        make(workload, said, 1)
    need = int(raised.value.remedy.split()[2].strip(","))
    assert 228 < need < 240
    make(workload, said, need)
    with pytest.raises(UserError, match=f" {need - 1} MiB of memory"):
        make(workload, said, need - 1)


def test_a_guest_too_big_for_this_machine_is_an_error() -> None:
    check_machine(1)
    with pytest.raises(UserError, match="MiB"):
        check_machine(1 << 30)
