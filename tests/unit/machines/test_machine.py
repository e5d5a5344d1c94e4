# SPDX-License-Identifier: GPL-2.0-or-later
"""Booting another kernel: a machine that is played, and a real ssh server; this machine."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kentry.arch import ARCHES, Arch, host_arch
from kentry.boot.probe_protocol import OnLine
from kentry.errors import MachineError, UserError
from kentry.machines import machine
from kentry.machines.machine import CommandResult, Machine, MachineOptions, ShellMachine
from kentry.machines.open import open_machine
from tests.processes import PATIENCE
from tests.unit.machines.sshd import Server, serving

OLD, NEW = "6.1.0-1-arm64", "6.12.3-arm64"
OWN = "grub-reboot {} && reboot"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_PAUSE", 0.01)


@dataclass
class Played(ShellMachine):
    """Answers as a machine would; `after` is what it runs once it was told to boot.

    `answers` maps a part of a command to what it says instead; `down` is how often it does not
    answer before it is back.
    """

    after: str = NEW
    root: bool = True
    systemd: bool = True
    down: int = 2
    parts_with: MachineError | None = None
    files: tuple[str, ...] = (f"/boot/vmlinuz-{NEW}", f"/boot/initrd.img-{NEW}")
    answers: dict[str, CommandResult] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)
    told: int = 0
    reconnected: int = 0
    name: str = "ssh:board"
    kind: str = "ssh"
    arch: Arch = ARCHES["x86_64"]

    def run_probe(self, words: Sequence[str], timeout: float, on_line: OnLine) -> None:
        raise NotImplementedError

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        line = " ".join(argv)
        self.asked.append(list(argv))
        for part, answer in self.answers.items():
            if part in line:
                return answer
        if "boot_id" in line:
            return self._which()
        if "test -f" in line:
            there = [file for file in self.files if file in argv]
            return CommandResult(0, "".join(f"{file}\n" for file in there), "")
        if line == "id -u":
            return CommandResult(0, "0\n" if self.root else "1000\n", "")
        if "/run/systemd" in line:
            return CommandResult(0 if self.systemd else 1, "", "")
        if "systemctl kexec" in line or "kexec -e" in line or "reboot" in line:
            self.told += 1
            if self.parts_with:
                raise self.parts_with
        return CommandResult(0, "", "")

    def reconnect(self) -> None:
        self.reconnected += 1

    def _which(self) -> CommandResult:
        if self.told and self.down:
            self.down -= 1
            raise MachineError("It does not answer.")
        boot, release = ("new", self.after) if self.told and self.after else ("old", OLD)
        return CommandResult(0, f"{boot}\n{release}\n", "")

    def lines(self) -> list[str]:
        return [" ".join(argv).replace(machine._ROOT_PATH, "") for argv in self.asked]


def boot(machine: Played, how: str = "kexec", kernel: str = NEW, timeout: float = 5.0) -> list[str]:
    """Boots, and brings back what was said meanwhile."""
    said: list[str] = []
    machine.options = MachineOptions(switch=how, boot_timeout=timeout)
    machine.boot(kernel, lambda fraction, now: said.append(now))
    return said


def fails(machine: Played, pattern: str, how: str = "kexec", timeout: float = 5.0) -> MachineError:
    with pytest.raises(MachineError, match=pattern) as caught:
        boot(machine, how, timeout=timeout)
    return caught.value


def test_a_machine_is_waited_for_until_it_answers_again() -> None:
    machine = Played()
    assert boot(machine)[-1] == "ssh:board: waiting until it answers again"
    assert machine.reconnected == 3


LOAD = f"-l /boot/vmlinuz-{NEW} --initrd=/boot/initrd.img-{NEW}"
# Where only a signed kernel is allowed.
REFUSED = CommandResult(255, "", "kexec_load failed: Operation not permitted")
MODULES, SRV = f"/lib/modules/{NEW}/vmlinuz", ("/srv/vmlinuz-6.9", "/srv/initramfs-6.9.img")


@pytest.mark.parametrize(
    ("machine", "kernel", "load"),
    [
        (Played(), NEW, LOAD),
        (Played(systemd=False), NEW, LOAD),
        (Played(root=False), NEW, LOAD),
        (Played(answers={"sh -l /boot": REFUSED}), NEW, f"-s {LOAD}"),
        (Played(files=(MODULES,)), NEW, f"-l {MODULES}"),
        (Played(files=("/root/Image",)), "/root/Image", "-l /root/Image"),
        (Played(files=SRV), SRV[0], f"-l {SRV[0]} --initrd={SRV[1]}"),
    ],
)
def test_kexec_loads_the_kernel_and_starts_it(machine: Played, kernel: str, load: str) -> None:
    boot(machine, kernel=kernel)
    root = "" if machine.root else "sudo -n "
    start = "systemctl kexec" if machine.systemd else "sync; kexec -e"
    assert f'{root}sh -c kexec "$@" sh {load} --reuse-cmdline' in machine.lines()
    assert f"{root}sh -c {start} sh" in machine.lines()


@pytest.mark.parametrize("kernel", ["Debian, with Linux 6.12", "it's; reboot", "$(id)", "1>2"])
def test_a_command_of_the_users_own_gets_the_kernels_name_quoted(kernel: str) -> None:
    machine = Played()
    boot(machine, OWN, kernel)
    (command,) = [argv for argv in machine.asked if "grub-reboot" in argv[-1]]
    assert command[:2] == ["sh", "-c"]
    assert shlex.split(command[2]) == ["grub-reboot", kernel, "&&", "reboot"]
    assert not [line for line in machine.lines() if "kexec" in line]


@pytest.mark.parametrize(("status", "is_error"), [(1, True), (128, True), (129, False)])
def test_a_command_that_the_shutdown_killed_did_not_fail(status: int, is_error: bool) -> None:
    """A shell gives a command that a signal killed a status above 128."""
    machine = Played(answers={"grub-reboot": CommandResult(status, "", "not found")})
    pattern = f"ended with status {status}" if is_error else "still runs the same boot"
    assert "not found" in fails(machine, pattern, OWN, timeout=0.1).detail


def test_a_machine_that_goes_before_it_answers_is_waited_for() -> None:
    boot(Played(parts_with=MachineError("The connection was lost.")), OWN)


@dataclass
class Telling(Played):
    """Is told to go and not waited for; `result` is what becomes of that, None: it goes on."""

    result: CommandResult | None = None
    lookings: int = 0

    def leave(self, argv: Sequence[str]) -> None:
        self.run_command(argv, 1)

    def left(self) -> CommandResult | None:
        self.lookings += 1
        return self.result


def test_a_machine_that_nobody_waits_for_goes() -> None:
    machine = Telling()
    boot(machine, OWN)
    assert (machine.told, machine.lookings) == (1, 0)


def test_a_name_that_is_no_release_is_not_compared() -> None:
    boot(Played(after=OLD), OWN, "Debian, second entry")


DENIED = CommandResult(1, "", "sudo: a password is required")


def answering(part: str, status: int, text: str = "") -> Played:
    return Played(answers={part: CommandResult(status, "", text)})


@pytest.mark.parametrize(
    ("machine", "pattern", "detail", "told"),
    [
        (answering("command -v kexec", 127), "kexec is not installed.*kexec-tools", "", 0),
        (answering("-l /boot", 255, "Not implemented"), f"not load {NEW}", "Not implemented", 0),
        (answering("systemctl kexec", 1, "no"), "with status 1.*systemctl kexec", "no", 0),
        (answering("boot_id", 1, "No such"), "does not say which boot it is in", "No such", 0),
        (answering("test -f", 0), f"has no kernel {NEW}.*vmlinuz-{NEW}", "", 0),
        (Played(root=False, answers={"sudo -n true": DENIED}), "it is not root, and sudo", "", 0),
        (Played(after=OLD), f"came back with the kernel {OLD}, not {NEW}", "", 1),
        (Played(after="", down=0), f"still runs the same boot of {OLD}", "", 1),
        (Played(down=10**9), r"did not come back within 0\.2 s", "not answer", 1),
        (Telling(after="", down=0), "the same boot", "", 1),
        (Telling(after="", down=0, result=CommandResult(0, "bye", "")), "the same boot", "bye", 1),
        (Telling(after="", down=0, result=CommandResult(2, "", "no")), "with status 2", "no", 1),
    ],
)
def test_a_boot_that_fails_is_one_sentence(
    machine: Played, pattern: str, detail: str, told: int
) -> None:
    assert detail in fails(machine, pattern, timeout=0.2).detail
    assert machine.told == told


@pytest.mark.parametrize(
    ("how", "kernel", "pattern"),
    [
        *(("kexec", kernel, "no name of") for kernel in ("", "-x", "a\nb")),
        ("reboot", NEW, "not say which"),
    ],
)
def test_a_kernel_or_a_command_that_will_not_do_is_a_mistake(
    how: str, kernel: str, pattern: str
) -> None:
    with pytest.raises(UserError, match=pattern):
        boot(Played(), how, kernel)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server whose boot id and kernel are two files."""
    with serving(tmp_path) as made:
        (tmp_path / "boot").write_text("old\n")
        (tmp_path / "release").write_text(f"{OLD}\n")
        made.program(
            "cat",
            f'case "$1" in /proc/sys/kernel/random/*) exec /bin/cat {tmp_path}/boot ;; esac\n'
            'exec /bin/cat "$@"',
        )
        made.program(
            "uname", f'[ "$1" = -r ] && exec /bin/cat {tmp_path}/release\nexec /bin/uname "$@"'
        )
        yield made


@pytest.mark.slow
def test_a_machine_behind_ssh_is_booted_and_measured_again(server: Server) -> None:
    """It drops the connection, is away, comes back, and has lost the probe."""
    server.program("own-boot", f'echo "$1" >{server.folder}/asked; kill -9 $PPID')
    server.start()
    lines: list[str] = []
    words = ["n=3", "paths=0", "cases=getppid"]
    options = MachineOptions(switch="own-boot {}", boot_timeout=PATIENCE)

    with open_machine("ssh:target", options) as place:
        place.run_probe(words, PATIENCE, lines.append)
        (folder,) = server.tmp.iterdir()

        def waiting(fraction: float | None, now: str) -> None:
            if (server.folder / "asked").exists() and server.process:
                server.stop()
            elif "answers again" in now and server.process is None:
                for file in folder.iterdir():
                    file.unlink()
                folder.rmdir()
                (server.folder / "boot").write_text("new\n")
                (server.folder / "release").write_text(f"{NEW}\n")
                server.start()

        place.boot(NEW, waiting)
        assert (server.folder / "asked").read_text() == f"{NEW}\n"
        place.run_probe(words, PATIENCE, lines.append)
    assert lines.count("kentry-probe end cases=1") == 2
    assert not list(server.tmp.iterdir())


@pytest.mark.slow
def test_kexec_behind_ssh(server: Server) -> None:
    switch = f"echo new >{server.folder}/boot; echo {NEW} >{server.folder}/release"
    kexec = f'echo "$@" >>{server.folder}/kexec; [ "$1" != -e ] || {{ {switch}; }}'
    server.program("kexec", kexec)
    server.program("systemctl", switch)
    server.program("sudo", 'shift; exec "$@"')
    image = server.folder / f"vmlinuz-{NEW}"
    image.touch()
    (server.folder / f"initrd.img-{NEW}").touch()
    server.start()
    options = MachineOptions(boot_timeout=PATIENCE)
    with open_machine("ssh:target", options) as place:
        place.boot(str(image), lambda fraction, now: None)
    said = (server.folder / "kexec").read_text().splitlines()
    initrd = f"--initrd={server.folder}/initrd.img-{NEW}"
    assert said[0] == f"-l {image} {initrd} --reuse-cmdline"


WORDS = ("n=3", "paths=0", "cases=getppid")


def here() -> Machine:
    with open_machine("local", MachineOptions()) as place:
        return place


def test_the_probe_runs_as_an_ordinary_process() -> None:
    lines: list[str] = []
    place = here()
    assert (place.kind, place.name, place.arch) == ("local", "local", host_arch())
    place.run_probe(WORDS, 30, lines.append)
    assert lines[0] == f"kentry-probe start {host_arch().name}"
    assert lines[-1] == "kentry-probe end cases=1"


def test_a_command_is_words_and_not_a_shells() -> None:
    words = ["a  b", "it's", '"$HOME"', "*", "x\ny", ""]
    result = here().run_command(["printf", "<%s>", *words], 20)
    assert (result.status, result.stderr) == (0, "")
    assert result.stdout == "".join(f"<{word}>" for word in words)


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MachineError, match="no-such-program"):
        here().run_command(["no-such-program"], 20)


def test_this_machine_does_not_boot_another_kernel() -> None:
    with pytest.raises(MachineError, match="would end kentry itself.*ssh:HOST"):
        here().boot("6.1.0", lambda fraction, now: None)


@pytest.mark.parametrize("text", ["", "locals", "ssh", "ssh:", "board", "board:", "qemu", "host:x"])
def test_what_is_no_place_is_a_mistake(text: str) -> None:
    with pytest.raises(UserError, match="is no place"):
        open_machine(text, MachineOptions())
