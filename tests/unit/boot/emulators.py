# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs in QEMU's place, played by the shell."""

from pathlib import Path


def fake_qemu(folder: Path, script: str = "", version: str = "7.2.22") -> Path:
    """A program that passes for QEMU and runs `script`.

    $plugin_out is where its plugin's output goes; its arguments are in FOLDER/argv, a line each.
    """
    file = folder / "qemu"
    file.write_text(
        f"""#!/bin/sh
if [ "$1" = -help ]; then echo "QEMU emulator version {version}"; echo "-plugin x"; exit; fi
printf '%s\\n' "$@" >{folder}/argv
for word; do case $word in *out=*) plugin_out=${{word#*out=}};; esac; done
plugin_out=${{plugin_out%%,*}}
{script}
"""
    )
    file.chmod(0o755)
    return file


def argument(folder: Path, option: str) -> str:
    """What came behind `option` on the command line of the last run."""
    words = (folder / "argv").read_text().splitlines()
    return words[words.index(option) + 1]
