"""Who asks: the owner, or an app of theirs that has a token.

Why it is here: what an app may spend is counted where the ledger is charged, deep below the call,
and tasks have no business with who calls them. So the call says it once, to its own context; what
goes on in another thread on its behalf has to take the context along.
"""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass

__all__ = ["App", "calling", "inside"]


@dataclass(frozen=True, slots=True)
class App:
    """An app that the owner gave a token.

    Attributes:
        key: 32 bytes that stand for the token.
        name: as the owner calls it.
        calls_a_minute: at most; 0 for any number.
        a_day: sum of eta that its releases may be charged in a day of UTC; 0 for any.
    """

    key: bytes
    name: str
    calls_a_minute: int = 0
    a_day: float = 0.0


_calling: ContextVar[App | None] = ContextVar("calling", default=None)


def calling() -> App | None:
    """The app on whose behalf this runs; None for the owner."""
    return _calling.get()


def inside(app: App | None) -> Context:
    """A copy of this context, in which it is this app that calls, or the owner."""
    context = copy_context()
    context.run(_calling.set, app)
    return context
