#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the plugin costs, as ratios of CPU time measured in one run on one machine.

boot     a boot with the plugin loaded and no window open / the same boot without it
counting the measured loop with counting on / the same loop without the plugin, where the
         loop's own time is a run with many windows a case less a run with few

The runs of a round alternate, every other round backwards, so that a machine that gets
slower or faster meanwhile favours neither side.  CPU time is that of the QEMU process,
user and system; both sides run with the same -icount.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from kentry.arch import Arch, find_arch
from kentry.arch.processors import find_processor
from kentry.boot.emulator import INSTALLED, Emulator, find_emulator
from kentry.boot.initramfs import build_initramfs
from kentry.host.native import plugin_file, probe_file

BOOT_BAR = 1.10
COUNTING_BAR = 1.6
TIMEOUT_SECONDS = 600
END_MARK = b"kentry-probe end "


@dataclass(frozen=True)
class Machine:
    """What every run has in common."""

    arch: Arch
    emulator: Emulator
    kernel: Path
    initramfs: Path
    plugin: Path
    folder: Path
    cases: str

    def cpu_seconds(self, windows: int, *, with_plugin: bool) -> float:
        """Boots, runs `windows` windows a case, powers off; the CPU time that took."""
        argv = self._argv(windows, with_plugin=with_plugin)
        with (self.folder / "console").open("w+b") as console:
            process = subprocess.Popen(
                argv,
                env={**os.environ, **self.emulator.env},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            console.seek(0)
            said = console.read()
        if process.returncode or END_MARK not in said:
            raise SystemExit(f"{' '.join(argv)}\n{said.decode(errors='replace')[-2000:]}")
        return usage.ru_utime + usage.ru_stime

    def _argv(self, windows: int, *, with_plugin: bool) -> list[str]:
        probe = f"n={windows} paths=0 {self.cases}".strip()
        words = f"nokaslr randomize_kstack_offset=off panic=-1 quiet console={self.arch.console}"
        argv = [
            *("timeout", str(TIMEOUT_SECONDS), *self.emulator.argv),
            *("-machine", self.arch.machine, "-cpu", find_processor(self.arch).qemu()),
            *("-accel", "tcg,thread=single", "-smp", "1", "-m", "512M"),
            *("-icount", "shift=0,sleep=off", "-seed", "1"),
            *("-rtc", "base=2020-01-01T00:00:00,clock=vm"),
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-nic", "none", "-monitor", "none", "-serial", "stdio"),
            *("-kernel", str(self.kernel), "-initrd", str(self.initramfs)),
            *("-append", f"{words} -- {probe}"),
        ]
        if with_plugin:
            plugin = f"{self.plugin},out={self.folder}/trace"
            if self.arch.firmware:
                plugin += ",firmware={:x}-{:x}".format(*self.arch.firmware)
            argv += ["-plugin", plugin]
        return argv


def measure(
    machine: Machine, rounds: int, runs: dict[str, tuple[int, bool]]
) -> list[dict[str, float]]:
    """CPU seconds of each of `runs` (windows, with the plugin?) in each round."""
    machine.cpu_seconds(0, with_plugin=False)  # reads the files into memory
    results = []
    for number in range(rounds):
        names = list(runs) if number % 2 == 0 else list(reversed(runs))
        seconds = {}
        for name in names:
            windows, with_plugin = runs[name]
            seconds[name] = machine.cpu_seconds(windows, with_plugin=with_plugin)
        results.append(seconds)
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def report(name: str, plain: list[float], plugin: list[float], bar: float) -> bool:
    """One line; whether the ratio of the medians is within the bar."""
    ratio = median(plugin) / median(plain)
    ratios = sorted(with_it / without for with_it, without in zip(plugin, plain, strict=True))
    verdict = "within" if ratio <= bar else "over"
    print(
        f"  {name:8} {ratio:5.2f}  ({verdict} {bar:.2f})"
        f"  rounds {ratios[0]:.2f}..{ratios[-1]:.2f}"
        f"  plain {median(plain):.2f} s, plugin {median(plugin):.2f} s"
    )
    return ratio <= bar


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arch", help="whose kernel it is")
    parser.add_argument("kernel", type=Path, help="an image that QEMU's -kernel takes")
    parser.add_argument("--initramfs", type=Path, help="one with the probe as /init")
    parser.add_argument("--plugin", type=Path, help="the plugin's file (the built one)")
    parser.add_argument("--emulator", default=INSTALLED)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--few", type=int, default=1000, help="windows a case (1000)")
    parser.add_argument("--many", type=int, default=41000, help="windows a case (41000)")
    parser.add_argument("--case", default="", help="only these, with commas")
    parser.add_argument("--only", choices=("boot", "counting"), help="leave out the other")
    return parser.parse_args()


def make_machine(args: argparse.Namespace, folder: Path) -> Machine:
    arch = find_arch(args.arch)
    initramfs = args.initramfs
    if not initramfs:
        initramfs = folder / "initramfs"
        initramfs.write_bytes(build_initramfs(probe_file(arch), []))
    return Machine(
        arch=arch,
        emulator=find_emulator(arch, args.emulator),
        kernel=args.kernel,
        initramfs=initramfs,
        plugin=args.plugin or plugin_file(),
        folder=folder,
        cases=f"cases={args.case}" if args.case else "",
    )


def main() -> int:
    args = parse_arguments()
    runs: dict[str, tuple[int, bool]] = {}
    if args.only != "counting":
        runs |= {"boot": (0, False), "boot+": (0, True)}
    if args.only != "boot":
        runs |= {"few": (args.few, False), "few+": (args.few, True)}
        runs |= {"many": (args.many, False), "many+": (args.many, True)}
    with tempfile.TemporaryDirectory(prefix="kentry-bench-") as name:
        machine = make_machine(args, Path(name))
        print(f"{machine.arch.name}, QEMU {machine.emulator.version}, {args.kernel.name}")
        results = measure(machine, args.rounds, runs)
    good = True
    if "boot" in runs:
        plain, plugin = ([one[key] for one in results] for key in ("boot", "boot+"))
        good &= report("boot", plain, plugin, BOOT_BAR)
    if "many" in runs:
        plain = [one["many"] - one["few"] for one in results]
        plugin = [one["many+"] - one["few+"] for one in results]
        good &= report("counting", plain, plugin, COUNTING_BAR)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
