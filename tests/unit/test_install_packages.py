# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/install-packages where it cannot become root."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import ROOT


def test_without_sudo_it_names_the_packages_in_one_sentence(tmp_path: Path) -> None:
    if not shutil.which("dpkg-query"):
        pytest.skip("this machine is not a Debian one: dpkg-query is not there")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "sed", "grep", "dpkg", "dpkg-query"):
        (folder / name).symlink_to(shutil.which(name) or "")
    (folder / "id").write_text("#!/bin/sh\necho 1000\n")
    (folder / "id").chmod(0o755)
    (tmp_path / "list").write_text("no-such-package # for this test\n")
    done = subprocess.run(
        [ROOT / "scripts" / "install-packages", tmp_path / "list"],
        env={**os.environ, "PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "sudo" in done.stderr and "no-such-package" in done.stderr
