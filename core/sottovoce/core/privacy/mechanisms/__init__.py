"""Every mechanism on words by its versioned name; a new one needs a module and a line here.

Settings, files and the wire name mechanisms, and only this module resolves a name. A line gives the
mechanism's place without importing it, so commands that only list the names need no NumPy.
"""

from __future__ import annotations

from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final

from sottovoce.core.errors import NotFound

if TYPE_CHECKING:
    from sottovoce.core.bundle.levels import Level
    from sottovoce.core.privacy.mechanisms.spherical import Mechanism

MECHANISMS: Final = {
    "pct2t.v2": "sottovoce.core.privacy.mechanisms.spherical:PCT2T2",
    "pct2t.v1": "sottovoce.core.privacy.mechanisms.spherical:PCT2T",
    "t2t.v1": "sottovoce.core.privacy.mechanisms.spherical:T2T",
}
"""Module and class of every mechanism that this version knows, the default first."""

DEFAULT: Final = next(iter(MECHANISMS))


_resolve = cache(resolve_name)


def find(name: str) -> type[Mechanism]:
    """The mechanism called ``name``.

    Raises:
        NotFound: there is none; the fix lists those there are.
    """
    if name not in MECHANISMS:
        known = ", ".join(MECHANISMS)
        raise NotFound("unknown mechanism", fix=f"use one of: {known}", subject="mechanism")
    kind: type[Mechanism] = _resolve(MECHANISMS[name])
    return kind


def make(name: str, level: Level, readings: tuple[str, ...]) -> Mechanism:
    """The mechanism called ``name`` at ``level``, under a policy that gives noise to ``readings``.

    >>> from sottovoce.core.bundle.levels import Level
    >>> make("t2t.v1", Level(25.0), ()).eta
    25.0

    Raises:
        NotFound: see `find`. InvalidInput: an eta of the level is not a positive number.
    """
    return find(name).of(level, readings)
