"""What all commands share: configuration, errors, JSON, progress.

Why it is here: every command fails alike (``error:`` and ``fix:`` on standard error, an exit code
by kind of error) and keeps standard output for data alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sottovoce.core.errors import SottovoceError
from sottovoce.edge import config as settings
from sottovoce.edge.config import Config

if TYPE_CHECKING:
    pass

__all__ = [
    "load_config",
    "numbered",
    "privacy_options",
]

_F = TypeVar("_F", bound=Callable[..., Any])


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


def load_config(ctx: click.Context) -> Config:
    """The owner's settings, from where ``sotto --config`` says."""
    path: Path | None = ctx.obj
    return settings.load(path)


def numbered(error: SottovoceError, place: str) -> SottovoceError:
    """The same error, with the place in the input in front."""
    return type(error)(
        f"{place}: {error.problem}", fix=error.fix, subject=error.subject, metadata=error.metadata
    )
