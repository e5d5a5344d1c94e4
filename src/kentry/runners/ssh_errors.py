# SPDX-License-Identifier: GPL-2.0-or-later
"""What ssh(1) says when it does not get through, as one sentence and its remedy.

The messages are OpenSSH's, which does not translate them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from kentry.errors import MachineError
from kentry.runners.console import tail

# ssh's own status; a command's may be the same.
SSH_FAILED = 255


def explain_ssh(destination: str, stderr: str) -> MachineError:
    """The error for an ssh that ended before anything ran on `destination`."""
    for pattern, explain in _EXPLAINED:
        if found := pattern.search(stderr):
            return MachineError(*explain(destination, found), tail(stderr))
    return MachineError(f"ssh does not get to {destination}.", _try_it(destination), tail(stderr))


def _try_it(destination: str) -> str:
    return f"Try by hand what has to work without a question: {_batch(destination)}"


def _batch(destination: str) -> str:
    return f"ssh -o BatchMode=yes {shlex.quote(destination)} true"


def host_and_port(destination: str) -> tuple[str, str]:
    """The host and port ("" where none is named) in a destination of ssh's."""
    uri = destination.startswith("ssh://")
    rest = destination.removeprefix("ssh://").rstrip("/").rpartition("@")[2]
    found = re.fullmatch(r"(\[[^]]*\]|[^:]*):(\d+)", rest) if uri else None
    host, port = (found[1], found[2]) if found else (rest, "")
    return host.strip("[]"), port


def _changed(destination: str, found: re.Match[str]) -> tuple[str, str]:
    host, port = host_and_port(destination)
    name = f"[{host}]:{port}" if port and port != "22" else host
    # Debian's ssh prints the command, with the file it is in.
    command = found["command"] or f"ssh-keygen -R {shlex.quote(name)}"
    return (
        f"{destination} shows another host key than the one that ssh knows it by.",
        "Make sure that it is the machine you mean (it may have been installed anew); then:"
        f" {command.strip()}  and log in once by hand.",
    )


def _unknown(destination: str, found: re.Match[str]) -> tuple[str, str]:
    return (
        f"ssh does not know the host key of {destination} yet.",
        "Log in once by hand and compare the fingerprint that it shows:"
        f" ssh {shlex.quote(destination)}",
    )


def _denied(destination: str, found: re.Match[str]) -> tuple[str, str]:
    ways = found["ways"] or ""  # "publickey,password"
    asks = "would ask for a password" if re.search("password|interactive", ways) else "wants a key"
    return (
        f"{destination} {asks}: none of your keys opens it.",
        f"Put your key there (ssh-copy-id), or unlock it here (ssh-add); then try:"
        f" {_batch(destination)}",
    )


def _unresolved(destination: str, found: re.Match[str]) -> tuple[str, str]:
    name, colon, port = destination.rpartition(":")
    remedy = "Check how it is spelled, here and in your ~/.ssh/config."
    if colon and port.isdecimal() and not destination.startswith("ssh://"):
        remedy = f"A port is named so: ssh://{name}:{port}"
    return f"No address is known for {found['host']}.", remedy


def _refused(destination: str, found: re.Match[str]) -> tuple[str, str]:
    return (
        f"{destination} refuses connections: no ssh server answers there.",
        "Start one there (apt-get install openssh-server), or check host and port.",
    )


def _unreachable(destination: str, found: re.Match[str]) -> tuple[str, str]:
    return (
        f"{destination} does not answer ({found[0].strip().lower()}).",
        "Check that it is switched on and that this machine's network reaches it.",
    )


def _settings(destination: str, found: re.Match[str]) -> tuple[str, str]:
    return (
        "ssh does not like its own settings.",
        f"Put right what it says; {_batch(destination)} must say nothing.",
    )


def _hung_up(destination: str, found: re.Match[str]) -> tuple[str, str]:
    return (
        f"{destination} closed the connection before anyone could log in.",
        "Its ssh server's log says why; it may be starting up, or too many may be logging in.",
    )


_Explain = Callable[[str, re.Match[str]], tuple[str, str]]

# In this order: the first that is found says it.
_EXPLAINED: tuple[tuple[re.Pattern[str], _Explain], ...] = (
    (
        re.compile(
            r"(?s)(?:IDENTIFICATION HAS CHANGED|Host key for \S+ has changed)"
            r"(?:.*?^(?P<command>\s*ssh-keygen [^\r\n]*))?",
            re.MULTILINE,
        ),
        _changed,
    ),
    (re.compile(r"Host key verification failed|host key is known for"), _unknown),
    (
        re.compile(r"Permission denied \((?P<ways>[^)]*)\)|Too many authentication failures"),
        _denied,
    ),
    (re.compile(r"Could not resolve hostname (?P<host>[^\s:]+)"), _unresolved),
    (re.compile(r"Connection refused"), _refused),
    (
        re.compile(
            r"(?i)(connection|operation) timed out|no route to host|network is unreachable"
            r"|host is down"
        ),
        _unreachable,
    ),
    (re.compile(r"Bad configuration option|Bad owner or permissions|bad configuration"), _settings),
    (
        re.compile(
            r"kex_exchange_identification|Connection (closed|reset) by"
            r"|banner exchange|closed by remote host"
        ),
        _hung_up,
    ),
)
