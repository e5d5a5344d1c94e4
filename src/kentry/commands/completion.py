# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry completion: what a shell reads once, so that Tab completes kentry's command line."""

from dataclasses import dataclass

from kentry.commands import emit
from kentry.commands.options import Common, operand

EXAMPLES = (
    "kentry completion bash > ~/.local/share/bash-completion/completions/kentry",
    "kentry completion zsh > ~/.zfunc/_kentry    # a folder of your fpath",
    "kentry completion fish > ~/.config/fish/completions/kentry.fish",
)


@dataclass(frozen=True, kw_only=True)
class Options(Common):
    """What `kentry completion` takes."""

    shell: str = operand(metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def run(options: Options) -> None:
    """Prints the shell's code, which runs kentry for each completion."""
    from argcomplete.shell_integration import shellcode

    code = shellcode(["kentry"], shell=options.shell)
    emit.write(code, emit.NEVER, paged=False)
