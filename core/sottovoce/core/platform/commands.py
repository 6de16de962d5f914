"""A group of commands that imports a command only when called, and suggests corrections.

``--help`` must be quick on a small device. Both programs use this group.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import click
from click.shell_completion import get_completion_class

from sottovoce.core.errors import Side, speaking_to
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.core.platform.program import INTERRUPTED

__all__ = ["EXIT_CODES", "LazyGroup", "completion_command", "version_command"]

EXIT_CODES = {
    0: "done",
    1: "a fault of the program",
    2: "wrong arguments or input",
    3: "something must be done first",
    4: "no such adapter, level, job or bundle",
    5: "a limit is reached: ledger, quota, disk",
    6: "the other side does not answer; try again",
    7: "unknown tenant or wrong token",
    8: "a file is damaged",
    9: "an offset or number that the other side does not accept",
    78: "wrong configuration",
    INTERRUPTED: "interrupted",
}
"""The exit codes of both programs; `sottovoce.core.errors` maps errors to them."""


class LazyGroup(click.Group):
    """Knows its commands by name and summary before any is imported.

    Args:
        package: the package of the modules that define the commands.
        groups: the headings of the help; under each, its commands with one line each.
        modules: the module of each command that does not have the module of its own name.
        side: whose program it is, which decides what errors say to do.
    """

    def __init__(
        self,
        *args: Any,
        package: str,
        groups: Mapping[str, Mapping[str, str]],
        modules: Mapping[str, str] = MappingProxyType({}),
        side: Side = Side.DEVICE,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self._package = package
        self._groups = groups
        self._names = [name for each in groups.values() for name in each]
        self._modules = modules
        self._side = side

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "help":
            return self._help()
        if cmd_name not in self._names:
            return None
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        module = self._modules.get(cmd_name, cmd_name.replace("-", "_"))
        return next(
            found
            for found in vars(import_module(f"{self._package}.{module}")).values()
            if isinstance(found, click.Command) and found.name == cmd_name
        )

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with speaking_to(self._side):
                return super().invoke(ctx)
        except KeyboardInterrupt:  # while a command was imported
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        asked = args[0]
        if self.get_command(ctx, asked) is None and not asked.startswith("-"):
            ctx.fail(f"there is no command {asked!r}: {self._instead(ctx, asked)}")
        return super().resolve_command(ctx, args)

    def _instead(self, ctx: click.Context, asked: str) -> str:
        near = difflib.get_close_matches(asked, self._names, 1, cutoff=0.6)
        if near:
            return f"did you mean `{ctx.command_path} {near[0]}`?"
        return f"`{ctx.command_path} --help` lists those there are"

    def _help(self) -> click.Command:
        @click.command("help", hidden=True)
        @click.argument("path", metavar="[COMMAND]...", nargs=-1)
        @click.pass_context
        def show(ctx: click.Context, path: tuple[str, ...]) -> None:
            assert ctx.parent is not None
            context, command = ctx.parent, ctx.parent.command
            for name in path:
                if not isinstance(command, click.Group):
                    break
                _, found, _ = command.resolve_command(context, [name])
                assert found is not None
                context = click.Context(found, info_name=found.name, parent=context)
                command = found
            click.echo(command.get_help(context))

        return show

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self._names))  # one column for all groups
        for heading, summaries in self._groups.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{width}}", told) for name, told in summaries.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


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
