"""What all commands share: configuration, errors, JSON, progress.

Why it is here: every command fails alike (``error:`` and ``fix:`` on standard error, an exit code
by kind of error) and keeps standard output for data alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sottovoce.edge import config as settings
from sottovoce.edge.config import Config
from sottovoce.edge.errors import SottovoceError

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = [
    "Command",
    "json_option",
    "load_config",
    "numbered",
    "print_json",
    "privacy_options",
    "progress_bar",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_INTERRUPTED = 130

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, one object a line; errors too."
)


def privacy_options(function: _F) -> _F:
    """Adds --level, --mechanism and --policy."""
    for name, values, what in (
        ("--policy", '"default" or "all"', "Which parts of speech are replaced"),
        ("--mechanism", '"pct2t.v1" or "t2t.v1"', "Mechanism"),
        ("--level", '"strong", "balanced", "light", or a target: attack:0.3', "Protection level"),
    ):
        function = click.option(name, default="", help=f"{what}: {values}.  [default: configured]")(
            function
        )
    return function


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


def load_config(ctx: click.Context) -> Config:
    """The owner's settings, from where ``sotto --config`` says."""
    path: Path | None = ctx.obj
    return settings.load(path)


def print_json(value: Any) -> None:
    """One object on one line of standard output."""
    click.echo(json.dumps(value, ensure_ascii=False))


def numbered(error: SottovoceError, place: str) -> SottovoceError:
    """The same error, with the place in the input in front."""
    return type(error)(
        f"{place}: {error.problem}", fix=error.fix, subject=error.subject, metadata=error.metadata
    )


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
