# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine that ssh(1) reaches as a place.

The probe is copied into a folder there, which is removed at the end.  Everything goes through the
system's ssh and the user's settings, over one connection.  What runs there is one line for sh(1);
lines with a random word mark its begin and end, so start-up files may print anything.  When the
connection is lost, it is killed.

labgrid's SSHDriver ignores the user's own settings (-F none), checks no host key, hands output on
only when the program has ended, feeds no input, and leaves the program running.
"""

import re
import secrets
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kentry.boot.console import tail
from kentry.boot.probe_protocol import OnLine, ProbeLines
from kentry.errors import MachineError, UserError
from kentry.host.process import Exit, need, supervise
from kentry.machines.machine import MOMENT, CommandResult, MachineOptions, ShellMachine

# Seconds until a connection stands, and until one that carries nothing is asked, 3 times.
_CONNECT_SECONDS, _ALIVE_SECONDS = 15, 15
_SSH_FAILED = 255  # ssh's own status; a command's may be the same

# What ssh(1) prints when it cannot connect; OpenSSH does not translate its messages.
# A pattern, a sentence and a remedy; the first pattern found counts.
_SSH_ERRORS = (
    (
        r"IDENTIFICATION HAS CHANGED|[Hh]ost key",
        "ssh does not trust the host key of {to}.",
        "Make sure that it is the machine you mean, remove the key that ssh names below if it names"
        " one, and log in once by hand: ssh {to}",
    ),
    (
        r"Permission denied \(|Too many authentication failures",
        "{to} lets nobody in with the keys that ssh has here.",
        "Put your key there (ssh-copy-id), or unlock it here (ssh-add); then try: {by_hand}",
    ),
    (
        r"Could not resolve hostname",
        "No address is known for {to}.",
        "Check how it is spelled, here and in your ~/.ssh/config; a port goes so: ssh://HOST:PORT",
    ),
    (
        r"(?i)refused|timed out|no route to host|unreachable|host is down",
        "{to} does not answer.",
        "Check that it is switched on, that an ssh server runs there, and the host and port.",
    ),
    (r"", "ssh does not get to {to}.", "Try what has to work without a question: {by_hand}"),
)

# The scripts below are for sh(1); $0 is the random word.

# Ends "$@" and its children when standard input does, which is when the connection goes; the
# children first, since once it has ended itself the one that waits for it ends the one that kills.
_GUARDED = (
    'exec 3<&0 </dev/null; echo "$0 begin"; "$@" 3<&- & p=$!;'
    ' { read -r x; kill -STOP "$p"; c=$(cat "/proc/$p/task/$p/children"); kill -9 $c "$p"; }'
    " <&3 3<&- >/dev/null 2>&1 & w=$!; exec 3<&-;"
    ' wait "$p"; s=$?; kill -9 "$w" 2>/dev/null; echo "$0 end $s"'
)

# Copies standard input to the file "$1".
_COPY = 'echo "$0 begin"; umask 077; cat >"$1"; echo "$0 end $?"'


def destination_of(text: str) -> str:
    """What ssh(1) is given for "ssh:HOST" or "ssh://USER@HOST:PORT"; UserError where it is none."""
    destination = text if text.startswith("ssh://") else text.removeprefix("ssh:")
    host = destination.removeprefix("ssh://").rpartition("@")[2]
    wrong = not host or "-" in (destination[:1], host[:1])
    if wrong or not destination.isprintable() or re.search(r"\s", destination):
        raise UserError(
            f"'{text}' names no machine for ssh.",
            "Write it as ssh:HOST, ssh:USER@HOST or ssh://USER@HOST:PORT.",
        )
    return destination


@dataclass
class RemoteScript:
    """The output of one script, between the lines with `word` in which it begins and ends.

    `end` is what the last of these says, None if the script did not come so far.  `cut` is output
    before it without a newline, `noise` what was printed before the script began.
    """

    word: str
    on_line: Callable[[str], None]
    began: bool = False
    end: str | None = None
    cut: str = ""
    noise: list[str] = field(default_factory=list)

    def __call__(self, line: str) -> None:
        """Takes one line of ssh's standard output."""
        before, word, text = line.partition(self.word + " ")
        if not word and not self.began:
            self.noise.append(line)
        elif not word and self.end is None:
            self.on_line(line)
        elif text == "begin":
            self.began = True
        elif text.startswith("end "):
            self.end = text.removeprefix("end ")
            self.cut = before
        elif word and self.began:
            self.on_line(text)


class SshMachine(ShellMachine):
    """A machine that ssh reaches by one connection."""

    kind = "ssh"

    def __init__(self, name: str, options: MachineOptions) -> None:
        self.name = name
        self.options = options
        self._destination = destination_of(name)
        settings = [
            "BatchMode=yes",
            f"ConnectTimeout={_CONNECT_SECONDS}",
            f"ServerAliveInterval={_ALIVE_SECONDS}",
            "ServerAliveCountMax=3",
            # Of the user's own settings, what is not for a program that reads the output, and
            # what the other machine has no business with.
            *("RemoteCommand=none", "PermitLocalCommand=no", "ClearAllForwardings=yes"),
            *("ForwardAgent=no", "ForwardX11=no", "LogLevel=INFO"),
        ]
        self._argv = [need("ssh"), "-T"]
        self._argv += [word for setting in settings for word in ("-o", setting)]
        # The name of a socket may have 108 bytes, so not in $TMPDIR.
        self._sockets = tempfile.TemporaryDirectory(
            prefix="kentry-", dir="/tmp", ignore_cleanup_errors=True
        )
        path = f"ControlPath={self._sockets.name}/ssh"
        sharing = ("ControlMaster=auto", path, "ControlPersist=60")
        # Apart, since -v shows commands that work when this connection has gone, too.
        self._sharing = [word for setting in sharing for word in ("-o", setting)]

    def connect(self) -> None:
        """Finds out what machine it is; MachineError if it cannot be reached or runs no Linux."""
        result = self.run_command(["uname", "-sm"], _CONNECT_SECONDS + MOMENT)
        system, _, machine = result.stdout.strip().partition(" ")
        if system != "Linux":
            raise MachineError(
                f"{self.name} runs {system or 'no system that says its name'}, not Linux.",
                "kentry measures entries into the Linux kernel: name a machine that runs it.",
                tail(result.stderr),
            )
        self.has_arch(machine)

    def run_probe(self, arguments: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Runs the probe, which is copied there where it is not; see Machine."""
        lines = ProbeLines(on_line)
        argv = [self.ready_probe(), *arguments]
        said, ran = self._run(_GUARDED, argv, timeout, lines)
        self.check_ended(lines, self._status("The probe", said, ran), ran.stderr)

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Runs a command; see Machine."""
        lines: list[str] = []
        said, ran = self._run(_GUARDED, argv, timeout, lines.append)
        status = self._status(f"'{argv[0]}'", said, ran)
        stdout = "\n".join([*lines, said.cut])
        return CommandResult(status, stdout, ran.stderr.replace(said.word, "sh"))

    def sh(self, script: str, *arguments: str) -> tuple[list[str], int]:
        """Runs a script; see ShellMachine."""
        result = self.run_command(["sh", "-c", script, "sh", *arguments], MOMENT)
        return result.stdout.splitlines(), result.status

    def put(self, path: str) -> None:
        """Copies the probe; see ShellMachine."""
        data = self.probe.read_bytes()
        said, ran = self._run(_COPY, [path], MOMENT, lambda line: None, data)
        if self._status("Copying the probe", said, ran):
            raise MachineError(
                f"The probe cannot be written on {self.name}.",
                "Make some space there: it takes 64 KiB.",
                tail(ran.stderr),
            )

    def reconnect(self) -> None:
        """Ends the connection; the next run makes another."""
        argv = [*self._argv, *self._sharing, "-O", "exit", "--", self._destination]
        supervise(argv, MOMENT, lambda line: None)

    def close(self) -> None:
        """Removes the folder there, and hangs up."""
        with self._sockets:
            self.remove_folder()
            self.reconnect()

    def _run(
        self,
        script: str,
        arguments: Sequence[str],
        timeout: float,
        on_line: Callable[[str], None],
        feed: bytes = b"",
    ) -> tuple[RemoteScript, Exit]:
        """Runs a script of this file for `timeout` seconds; MachineError where it did not begin."""
        word, to = f"kentry-{secrets.token_hex(6)}", self._destination
        said = RemoteScript(word, on_line)
        command = f"exec {shlex.join(['sh', '-c', script, word, *arguments])}"
        argv, shown = ([*self._argv, *more, "--", to, command] for more in (self._sharing, []))
        env = {"LC_ALL": "C"}  # which ssh hands on: messages are read there and here
        hold = not feed
        ran = supervise(argv, timeout, said, env=env, feed=feed, hold=hold, shown=shown)
        said.on_line = lambda line: None
        if ran.rest:
            said(ran.rest)
        if said.began:
            return said, ran
        if ran.stopped:
            raise self.stopped("ssh", ran.stopped, to)
        quoted = shlex.quote(to)
        if ran.status == _SSH_FAILED:
            # The last pattern is in every text.
            row = next(row for row in _SSH_ERRORS if re.search(row[0], ran.stderr))
            remedy = row[2].format(to=quoted, by_hand=f"ssh -o BatchMode=yes {quoted} true")
            raise MachineError(row[1].format(to=to), remedy, tail(ran.stderr))
        raise MachineError(
            f"The account's shell on {to} ended with status {ran.status} before it ran anything.",
            f"See what this prints: ssh {quoted} true  (start-up files must not end the shell, and"
            " the account must be allowed to run commands).",
            tail("\n".join([*said.noise, ran.stderr])),
        )

    def _status(self, what: str, said: RemoteScript, ran: Exit) -> int:
        """The status of what ran there to its end; MachineError where it did not get there."""
        if status := re.fullmatch("[0-9]{1,3}", said.end or ""):
            return int(status[0])
        if ran.stopped:
            raise self.stopped(what, ran.stopped)
        raise MachineError(
            f"The connection to {self.name} was lost: {what[0].lower()}{what[1:]} did not come"
            " to its end.",
            "What had come before is kept; run again when the machine can be reached.",
            tail(ran.stderr),
        )
