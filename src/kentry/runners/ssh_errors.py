# SPDX-License-Identifier: GPL-2.0-or-later
"""What ssh(1) prints when it cannot connect, as one sentence and its remedy.

The messages are OpenSSH's, which does not translate them.
"""

import re
import shlex

from kentry.errors import MachineError
from kentry.runners.console import tail

# ssh's own status; a command's may be the same.
SSH_FAILED = 255

# A pattern, a sentence and a remedy; the first pattern found counts.  {to} is the destination,
# {by_hand} an ssh to it that must work without a question; explain_ssh() has the others.
_ERRORS = (
    (
        r"(?s)(?:IDENTIFICATION HAS CHANGED|Host key for \S+ has changed)"
        r"(?:.*?^(?P<command>\s*ssh-keygen [^\r\n]*))?",
        "{to} shows another host key than the one that ssh knows it by.",
        "Make sure that it is the machine you mean (it may have been installed anew); then:"
        " {forget}  and log in once by hand.",
    ),
    (
        r"Host key verification failed|host key is known for",
        "ssh does not know the host key of {to} yet.",
        "Log in once by hand and compare the fingerprint that it shows: ssh {quoted}",
    ),
    (
        r"Permission denied \((?P<ways>[^)]*)\)|Too many authentication failures",
        "{to} {asks}: none of your keys opens it.",
        "Put your key there (ssh-copy-id), or unlock it here (ssh-add); then try: {by_hand}",
    ),
    (
        r"Could not resolve hostname (?P<host>[^\s:]+)",
        "No address is known for {host}.",
        "{spelling}",
    ),
    (
        r"Connection refused",
        "{to} refuses connections: no ssh server answers there.",
        "Start one there (apt-get install openssh-server), or check host and port.",
    ),
    (
        r"(?i)(?P<why>(connection|operation) timed out|no route to host|network is unreachable"
        r"|host is down)",
        "{to} does not answer ({why}).",
        "Check that it is switched on and that this machine's network reaches it.",
    ),
    (
        r"Bad configuration option|Bad owner or permissions|bad configuration",
        "ssh does not like its own settings.",
        "Correct what it names; {by_hand} must print nothing.",
    ),
    (
        r"kex_exchange_identification|Connection (closed|reset) by"
        r"|banner exchange|closed by remote host",
        "{to} closed the connection before anyone could log in.",
        "Its ssh server's log says why; it may be starting up, or too many may be logging in.",
    ),
    (
        r"",
        "ssh does not get to {to}.",
        "Try by hand what has to work without a question: {by_hand}",
    ),
)


def explain_ssh(destination: str, stderr: str) -> MachineError:
    """The error for an ssh that ended before anything ran on `destination`."""
    # The last pattern is in every text.
    match, sentence, remedy = next(
        (match, sentence, remedy)
        for pattern, sentence, remedy in _ERRORS
        if (match := re.search(pattern, stderr, re.MULTILINE))
    )
    words = match.groupdict("")
    host, port = host_and_port(destination)
    key_of = f"[{host}]:{port}" if port and port != "22" else host
    quoted = shlex.quote(destination)
    password = re.search("password|interactive", words.get("ways", ""))  # "publickey,password"
    name, colon, number = destination.rpartition(":")
    spelling = "Check how it is spelled, here and in your ~/.ssh/config."
    if colon and number.isdecimal() and not destination.startswith("ssh://"):
        spelling = f"A port is named so: ssh://{name}:{number}"
    details = {
        "to": destination,
        "quoted": quoted,
        "by_hand": f"ssh -o BatchMode=yes {quoted} true",
        "asks": "would ask for a password" if password else "wants a key",
        "spelling": spelling,
        "host": words.get("host", ""),
        "why": words.get("why", "").lower(),
        # Debian's ssh prints the command, with the file it is in.
        "forget": words.get("command", "").strip() or f"ssh-keygen -R {shlex.quote(key_of)}",
    }
    return MachineError(sentence.format(**details), remedy.format(**details), tail(stderr))


def host_and_port(destination: str) -> tuple[str, str]:
    """The host and port ("" where none is named) in a destination of ssh's."""
    rest = destination.removeprefix("ssh://").rstrip("/").rpartition("@")[2]
    match = re.fullmatch(r"(\[[^]]*\]|[^:]*):(\d+)", rest)
    if match and destination.startswith("ssh://"):
        return match[1].strip("[]"), match[2]
    return rest.strip("[]"), ""
