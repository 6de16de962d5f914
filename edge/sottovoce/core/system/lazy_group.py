"""A group of commands that imports a command only when it is called.

Why it is here: ``--help`` must be quick on a small device, and both programs are built alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """Knows its commands by name and summary before any is imported.

    Args:
        package: where the modules are; each has its command as ``command``.
        summaries: one line for each command, in the order of the help.
    """

    def __init__(self, *args: Any, package: str, summaries: Mapping[str, str], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._package = package
        self._summaries = summaries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._summaries:
            return None
        module = import_module(f"{self._package}.{cmd_name.replace('-', '_')}")
        found: click.Command = module.command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))
