"""Callers: the owner, and apps with tokens; and how much each app has spent today.

Without tokens, every program that opens the daemon's socket speaks as the owner. A token is shown
once, and only a keyed hash is kept. The transaction that charges the ledger also counts the app's
spending. So an app gains nothing if it gets the daemon killed.

Calls per minute are counted in memory only. They protect the device's time, which a restart frees
anyway. The socket and the OpenAI endpoint share the count.

The ledger counts an app's spending, deep below the call, and the tasks between need not know the
caller. So the caller is stored once, in the call's context. A thread that works for the call must
run in a copy of that context.

The owner's programs prove with a secret that they can read the state folder. The OpenAI endpoint's
secret stays, because people put it into settings. The socket's secret is new at each start, so a
stolen one is useless after that run.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sottovoce.core.errors import (
    ConfigError,
    InvalidInput,
    NotFound,
    Overloaded,
    QuotaExceeded,
    Unauthenticated,
)
from sottovoce.core.platform.files import atomic, disk, read_secret
from sottovoce.edge.state.database import Store

if TYPE_CHECKING:
    from sottovoce.core.privacy.hiding import Hiding


@dataclass(frozen=True, slots=True)
class Hides:
    """An app's choices of words to hide, in addition to the owner's; see `hiding.Hiding`."""

    kinds: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.kinds or self.words or self.patterns)


@dataclass(frozen=True, slots=True)
class OwnSecret:
    """A secret in the state folder.

    Attributes:
        file: its name in the folder.
        what: a description, for people.
        prefix: the start of every secret of this kind, so that people and programs recognise it.
        made_by: the command that makes it.
    """

    file: str
    what: str
    prefix: str
    made_by: str
    subject: str

    def renew(self, state: Path) -> str:
        """Replace the secret by a new one, and return it.

        Raises:
            ConfigError: it cannot be written. QuotaExceeded: the disk is full.
        """
        secret = f"{self.prefix}{secrets.token_urlsafe(32)}"
        with atomic(state / self.file) as file:
            file.write(f"{secret}\n".encode())
        return secret

    def read(self, state: Path, *, make: bool = False) -> str:
        """Return the secret.

        Raises:
            ConfigError: there is none, others can read it, or it cannot be read or written.
        """
        path = state / self.file
        if make and not path.exists():
            self.renew(state)
        with disk(path):
            try:
                found = read_secret(
                    path,
                    self.what,
                    fix="delete it, and restart `sotto serve`, which makes another",
                    subject=self.subject,
                    own=True,
                )
            except OSError as error:
                raise ConfigError(
                    f"cannot read {self.what} {path}",
                    fix=f"start {self.made_by}, which makes one",
                    subject=self.subject,
                ) from error
        secret = found.decode("ascii", "replace").strip()
        if len(secret) < 16 or not secret.isascii() or not secret.isprintable():
            raise ConfigError(
                f"{path} holds no key",
                fix="delete it, and restart `sotto serve`, which makes another",
                subject=self.subject,
            )
        return secret


OWNER: Final = OwnSecret(
    "owner.token", "the owner's token", "sotto-owner-", "`sotto serve`", "agent.apps"
)
"""The ``sotto`` command proves with this secret that it is the owner's.

An agent that asks apps for tokens checks it.
"""


@dataclass(frozen=True, slots=True)
class App:
    """An app to which the owner gave a token.

    Attributes:
        key: 32 bytes that stand for the token.
        calls_a_minute: the largest number of calls a minute; 0 for no limit.
        a_day: the largest sum of eta that its releases may be charged a day (UTC); 0 for no limit.
    """

    key: bytes
    name: str
    calls_a_minute: int = 0
    a_day: float = 0.0
    hides: Hides = Hides()


_calling: ContextVar[App | None] = ContextVar("calling", default=None)


def calling() -> App | None:
    """Return the app that made the current call; None for the owner."""
    return _calling.get()


def inside(app: App | None) -> Context:
    """Return a copy of this context in which ``app`` calls; None is the owner."""
    context = copy_context()
    context.run(_calling.set, app)
    return context


MOST_APPS: Final = 64
MOST_CALLS: Final = 1_000_000
_PREFIX: Final = "sotto-app-"
_LONGEST: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DAY_SECONDS: Final = 86_400
_NOTHING: Final = Hides()


def stranger() -> Unauthenticated:
    """Return the error for a missing token, or for the token of no current app."""
    return Unauthenticated(
        "no token, or one of no app",
        fix="send `authorization: Bearer TOKEN`; the device's owner makes one: `sotto apps new`",
        subject="authorization",
    )


class Apps:
    """Apps in the agent's database; ``clock`` returns seconds since 1970."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock

    def new(
        self, name: str, calls_a_minute: int = 0, a_day: float = 0.0, hides: Hides = _NOTHING
    ) -> str:
        """Add an app and return its token, which cannot be shown again.

        Raises:
            InvalidInput: the name, a limit, or a part of ``hides`` is invalid, or another app has
                the name.
            QuotaExceeded: there are `MOST_APPS` already, or the disk is full.
        """
        _check(name, calls_a_minute, a_day)
        _hiding(hides)
        token = _PREFIX + secrets.token_urlsafe(32)
        key = self._key(token)
        app = App(key, name, calls_a_minute, a_day, hides)
        with self._store.transaction() as transaction:
            known = [app.name for app, _ in self.all()]
            if name in known:
                raise InvalidInput(
                    f"there is an app {name}",
                    fix=f"choose another name, or `sotto apps rm {name}` first",
                    subject="name",
                )
            if len(known) >= MOST_APPS:
                raise QuotaExceeded(
                    f"there are {MOST_APPS} apps, and no room for more",
                    fix="remove one: `sotto apps rm NAME`",
                    subject="apps",
                )
            transaction.execute(
                "INSERT INTO apps VALUES (?, ?, ?, 0)",
                (key, self._sealed(app), self._today),
            )
        return token

    def hide(self, name: str, hides: Hides) -> None:
        """Replace an app's choices of words to hide, from its next text on.

        Raises:
            InvalidInput: a kind, word or pattern is invalid.
            NotFound: no app has this name.
        """
        _hiding(hides)
        with self._store.transaction() as transaction:
            app = self.named(name)
            sealed = self._sealed(replace(app, hides=hides))
            transaction.execute("UPDATE apps SET sealed = ? WHERE key = ?", (sealed, app.key))

    def named(self, name: str) -> App:
        """Return the app of this name."""
        for app, _ in self.all():
            if app.name == name:
                return app
        raise NotFound("no app of that name", fix="`sotto apps list` has them", subject=name)

    def hiding(self, app: App | None) -> Hiding | None:
        """Return a caller's present choices of words to hide, in addition to the owner's choices.

        Args:
            app: as it was when its call began; None is the owner.

        Raises:
            Unauthenticated: the app was removed.
        """
        if app is None:
            return None
        rows = self._store.rows("SELECT sealed FROM apps WHERE key = ?", app.key)
        if not rows:
            raise stranger()
        return _hiding(self._opened(app.key, rows[0][0]).hides)

    def all(self) -> list[tuple[App, float]]:
        """Return all apps by name, each with the eta that it was charged today."""
        rows = self._store.rows("SELECT key, sealed, day, spent FROM apps")
        found = [(self._opened(key, sealed), day, spent) for key, sealed, day, spent in rows]
        today = self._today
        return sorted(
            ((app, spent if day >= today else 0.0) for app, day, spent in found),
            key=lambda each: each[0].name,
        )

    def remove(self, name: str) -> None:
        """Remove an app; its token is refused from now on.

        Raises:
            NotFound: no app has this name.
        """
        with self._store.transaction() as transaction:
            transaction.execute("DELETE FROM apps WHERE key = ?", (self.named(name).key,))

    def find(self, token: str) -> App | None:
        """Return the app with this token, or None."""
        if not token.startswith(_PREFIX) or len(token) > _LONGEST:
            return None
        key = self._key(token)
        # Search by a keyed hash: its duration then reveals nothing about any token.
        rows = self._store.rows("SELECT sealed FROM apps WHERE key = ?", key)
        return self._opened(key, rows[0][0]) if rows else None

    def has(self, app: App) -> bool:
        """Return whether the app still exists."""
        return bool(self._store.rows("SELECT 1 FROM apps WHERE key = ?", app.key))

    def charge(self, transaction: sqlite3.Connection, app: App, amount: float) -> None:
        """Add to an app's spending of today, as part of the caller's transaction.

        Raises:
            QuotaExceeded: the app's daily limit would be passed (subject "app"); nothing is
                charged.
            Unauthenticated: the app was removed.
        """
        row = transaction.execute(
            "SELECT day, spent FROM apps WHERE key = ?", (app.key,)
        ).fetchone()
        if row is None:
            raise stranger()
        day, spent = row
        if day < self._today:  # a clock set back must not grant the day again
            day, spent = self._today, 0.0
        if app.a_day and spent + amount > app.a_day:
            raise QuotaExceeded(
                f"this app has spent {spent:.6g} of the {app.a_day:.6g} eta that it may spend in a "
                f"day, and this needs {amount:.6g} more",
                fix="come again tomorrow (UTC), or ask the device's owner for more",
                subject="app",
            )
        transaction.execute(
            "UPDATE apps SET day = ?, spent = ? WHERE key = ?", (day, spent + amount, app.key)
        )

    def _opened(self, key: bytes, sealed: bytes) -> App:
        name, calls, a_day, *hides = json.loads(self._store.seal.unseal(sealed, b"app" + key))
        return App(key, name, calls, a_day, Hides(*map(tuple, hides)))

    def _sealed(self, app: App) -> bytes:
        hides = app.hides
        told = [app.name, app.calls_a_minute, app.a_day, hides.kinds, hides.words, hides.patterns]
        return self._store.seal.seal(json.dumps(told).encode(), b"app" + app.key)

    @property
    def _today(self) -> int:
        return int(self._clock() // _DAY_SECONDS)

    def _key(self, token: str) -> bytes:
        return self._store.seal.name(b"app", token.encode())


@lru_cache(MOST_APPS)
def _hiding(hides: Hides) -> Hiding | None:
    """Return the choices in the form that the privatizer takes."""
    if not hides:
        return None
    from sottovoce.core.privacy.hiding import Hiding  # most apps need no patterns

    read = Hiding.of(((kind, True) for kind in hides.kinds), (), hides.words, hides.patterns)
    return Hiding(frozenset(hides.kinds), read.allow, read.hide, read.patterns)


def _check(name: str, calls_a_minute: int, a_day: float) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            "that is no name for an app",
            fix="use 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first",
            subject="name",
        )
    if not 0 <= calls_a_minute <= MOST_CALLS:
        raise InvalidInput(
            "calls a minute are out of range",
            fix=f"give a number up to {MOST_CALLS}, 0 for no limit",
            subject="calls_a_minute",
        )
    if not 0 <= a_day < float("inf"):
        raise InvalidInput(
            "what it may spend a day is out of range",
            fix="give a sum of eta, 0 for no limit",
            subject="a_day",
        )


class Callers:
    """Admits the apps of ``apps``, and always the owner.

    ``clock`` returns seconds and never goes back.
    """

    def __init__(self, apps: Apps, clock: Callable[[], float] = time.monotonic) -> None:
        self._apps, self._clock = apps, clock
        self._lock = threading.Lock()
        self._left: dict[bytes, tuple[float, float]] = {}
        """For each app, the calls it has left and the time of that count."""

    def find(self, token: str) -> App | None:
        """Return the app that has this token; see `Apps.find`."""
        return self._apps.find(token)

    def check(self, app: App | None) -> None:
        """Refuse an app that was removed.

        Raises:
            Unauthenticated: the app was removed.
        """
        if app is not None and not self._apps.has(app):
            raise stranger()

    def admit(self, app: App | None) -> None:
        """Count a call of an app.

        A minute's calls may all come at once; further calls are allowed as time passes.

        Raises:
            Unauthenticated: the app was removed.
            Overloaded: the app has called too often.
        """
        self.check(app)
        if app is None or not app.calls_a_minute:
            return
        most = app.calls_a_minute
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(app.key, (float(most), now))
            left = min(float(most), left + (now - since) * most / 60)
            self._left[app.key] = (left - 1 if left >= 1 else left), now
            if len(self._left) > MOST_APPS:  # drop removed apps, the longest idle first
                del self._left[next(iter(self._left))]
        if left < 1:
            raise Overloaded(
                f"this app may call {most} times a minute, and has",
                fix="call less often, or ask the device's owner for more",
                subject="app",
                metadata={"retry_after": str(math.ceil((1 - left) * 60 / most))},
            )
