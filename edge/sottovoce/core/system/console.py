"""What all commands of both programs share: errors, JSON, progress.

Why it is here: every command fails alike (``error:`` and ``fix:`` on standard error, an exit code
by kind of error) and keeps standard output for data alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from sottovoce.core.errors import SottovoceError

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Command", "json_option", "print_json", "progress_bar"]

_INTERRUPTED = 130

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, one object a line; errors too."
)


class Command(click.Command):
    """A command whose errors are told as the owner and their scripts expect."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SottovoceError as error:
            _report(error, as_json=bool(ctx.params.get("as_json")))
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)
        except BrokenPipeError:  # the reader of our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


def _report(error: SottovoceError, *, as_json: bool) -> None:
    if as_json:
        told = {
            "code": error.code.name,
            "problem": error.problem,
            "fix": error.fix,
            "subject": error.subject,
        }
        click.echo(json.dumps({"error": told}, ensure_ascii=False), err=True)
        return
    click.echo(f"error: {error.problem}", err=True)
    if error.fix:
        click.echo(f"  fix: {error.fix}", err=True)


def print_json(value: Any) -> None:
    """One object on one line of standard output."""
    click.echo(json.dumps(value, ensure_ascii=False))


@contextmanager
def progress_bar(*, enabled: bool = True) -> Iterator[Progress]:
    """A progress display on standard error; silent where that is no terminal."""
    # Here, so that the daemon is spared two megabytes.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not (enabled and console.is_terminal),
        transient=True,
    ) as progress:
        yield progress
