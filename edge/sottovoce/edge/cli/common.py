"""Shared code of all commands: configuration, errors, JSON, progress.

Every command fails in the same way: ``error:`` and ``fix:`` on standard error, and an exit code by
kind of error. Standard output holds only data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from sottovoce.core.errors import SottovoceError
from sottovoce.core.privacy.mechanisms.registry import MECHANISMS
from sottovoce.core.privacy.policies import POLICIES
from sottovoce.core.privacy.setting import LEVELS
from sottovoce.edge import config as settings
from sottovoce.edge.config import Config

__all__ = [
    "either",
    "load_config",
    "numbered",
    "privacy_options",
]

_F = TypeVar("_F", bound=Callable[..., Any])


def privacy_options(function: _F) -> _F:
    """Add --level, --mechanism and --policy."""
    for name, values, what in (
        ("--policy", either(POLICIES), "Which words are protected"),
        ("--mechanism", either(MECHANISMS), "Mechanism"),
        ("--level", f"{either(LEVELS)}, or a target: attack:0.3", "Protection level"),
    ):
        function = click.option(name, default="", help=f"{what}: {values}.  [default: configured]")(
            function
        )
    return function


def either(names: Iterable[str]) -> str:
    """Join names as in a sentence.

    >>> either(("strong", "balanced", "light"))
    '"strong", "balanced" or "light"'
    """
    *others, last = (f'"{name}"' for name in names)
    return f"{', '.join(others)} or {last}"


def load_config(ctx: click.Context) -> Config:
    """Load the owner's settings from the file that ``sotto --config`` names."""
    path: Path | None = ctx.obj
    return settings.load(path)


def numbered(error: SottovoceError, place: str) -> SottovoceError:
    """Return the same error, with its place in the input in front."""
    return type(error)(
        f"{place}: {error.problem}", fix=error.fix, subject=error.subject, metadata=error.metadata
    )
