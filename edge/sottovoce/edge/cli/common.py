"""What all commands share: configuration, errors, JSON, progress.

Why it is here: every command fails alike (``error:`` and ``fix:`` on standard error, an exit code
by kind of error) and keeps standard output for data alone.
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
    """Adds --level, --mechanism and --policy."""
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
    """Names as a sentence lists them.

    >>> either(("strong", "balanced", "light"))
    '"strong", "balanced" or "light"'
    """
    *others, last = (f'"{name}"' for name in names)
    return f"{', '.join(others)} or {last}"


def load_config(ctx: click.Context) -> Config:
    """The owner's settings, from where ``sotto --config`` says."""
    path: Path | None = ctx.obj
    return settings.load(path)


def numbered(error: SottovoceError, place: str) -> SottovoceError:
    """The same error, with the place in the input in front."""
    return type(error)(
        f"{place}: {error.problem}", fix=error.fix, subject=error.subject, metadata=error.metadata
    )
