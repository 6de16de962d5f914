"""The caller of a request: the owner, or an app with a token.

The ledger counts what an app spends, deep below the call, and the tasks between need not know the
caller. So the caller is stored once, in the call's context. A thread that works for the call must
run in a copy of that context.
"""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass

__all__ = ["App", "Hides", "calling", "inside"]


@dataclass(frozen=True, slots=True)
class Hides:
    """What an app hides in addition to the owner's choices; see `hiding.Hiding`."""

    kinds: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.kinds or self.words or self.patterns)


@dataclass(frozen=True, slots=True)
class App:
    """An app to which the owner gave a token.

    Attributes:
        key: 32 bytes that stand for the token.
        name: the owner's name for the app.
        calls_a_minute: the largest number of calls a minute; 0 for no limit.
        a_day: the largest sum of eta that its releases may be charged a day (UTC); 0 for no limit.
        hides: what its texts hide in addition to the owner's choices.
    """

    key: bytes
    name: str
    calls_a_minute: int = 0
    a_day: float = 0.0
    hides: Hides = Hides()


_calling: ContextVar[App | None] = ContextVar("calling", default=None)


def calling() -> App | None:
    """Return the app on whose behalf this code runs; None for the owner."""
    return _calling.get()


def inside(app: App | None) -> Context:
    """Return a copy of this context in which ``app`` calls; None is the owner."""
    context = copy_context()
    context.run(_calling.set, app)
    return context
