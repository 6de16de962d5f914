"""Commands that both programs have: ``version`` and ``completion``."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version

import click
from click.shell_completion import get_completion_class

from sottovoce.core.system.console import Command, json_option, print_json

__all__ = ["completion_command", "version_command"]

_SHELLS = ("bash", "zsh", "fish")
_PLACES = {
    "bash": "~/.local/share/bash-completion/completions/{program}",
    "zsh": "a folder of $fpath, as _{program}",
    "fish": "~/.config/fish/completions/{program}.fish",
}


def version_command(program: str, package: str) -> click.Command:
    """Return a command that prints the installed versions."""

    @click.command("version", cls=Command)
    @json_option
    def command(as_json: bool) -> None:
        """Print the version."""
        found = version(package)
        python = ".".join(map(str, sys.version_info[:3]))
        if as_json:
            print_json({"version": found, "python": python})
        else:
            click.echo(f"{program} {found}, Python {python}")

    return command


def completion_command(program: str) -> click.Command:
    """Return a command that prints the shell script for completion."""

    @click.command("completion", cls=Command)
    @click.argument("shell", type=click.Choice(_SHELLS), required=False)
    @json_option
    @click.pass_context
    def command(ctx: click.Context, shell: str | None, as_json: bool) -> None:
        """Print the script that has SHELL complete commands and options.

        SHELL is that of $SHELL unless given. Where to keep the script is said on standard error.
        """
        name = shell or os.path.basename(os.environ.get("SHELL", ""))
        found = get_completion_class(name)
        if found is None:
            ctx.fail(f"which shell? Name one of {', '.join(_SHELLS)}")
        root = ctx.find_root().command
        variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
        script = found(root, {}, program, variable).source()
        if as_json:
            print_json({"shell": name, "script": script})
            return
        click.echo(script)
        click.echo(f"keep it as {_PLACES[name].format(program=program)}", err=True)

    return command
