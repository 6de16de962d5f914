"""The ledger: the privacy loss spent on this device, and the owner's limit.

d_X-privacy composes by adding eta, so a large number of small releases adds up. The ledger charges
a release by the release's own figures, never by a caller's claim, before it is handed out.

The same text is released as the same bytes, which reveals nothing new. So the ledger keeps the
digests of the newest charges, and charges each text once. If a digest was dropped, its text is
charged again.

Labels have another kind of guarantee. Private adapters have a third kind, which protects against
others than the cloud. Their figures stand beside eta and are never added to it.

If the owner asks, the texts that left the device in the last hour are kept. These texts contain
clear words, so they are kept in memory only. Their number and their age are limited, and they end
with the daemon.
"""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from sottovoce.core.errors import QuotaExceeded
from sottovoce.edge.state import database
from sottovoce.edge.state.apps import Apps, calling
from sottovoce.edge.state.database import Store

SECONDS: Final = 3_600.0
MOST: Final = 256
LONGEST: Final = 2_000
"""Characters kept of a text: its end, which is a conversation's newest turn."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A text or other data that left the device.

    Attributes:
        time: seconds since 1970.
        kind, name: see `Purpose`.
        to: the receiver; empty for an app of this device.
        text: as it left; empty if there was none.
    """

    time: float
    kind: str
    name: str
    to: str
    text: str
    note: str = ""


class Record:
    """Keeps departures, but only while it is ``on``."""

    def __init__(self, *, on: bool = False, clock: Callable[[], float] = time.time) -> None:
        self.on = on
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: deque[Departure] = deque(maxlen=MOST)

    def note(self, purpose: Purpose, to: str, texts: Iterable[str], note: str = "") -> None:
        """Note data that is about to leave; ``texts`` are read only while ``on``."""
        if self.on:
            now, text = self._clock(), "\n".join(filter(None, texts))
            with self._lock:
                self._forget(now)
                self._kept.append(Departure(now, *purpose, to, text[-LONGEST:], note))

    def recent(self) -> list[Departure]:
        """Return the departures of the last hour, the newest first."""
        with self._lock:
            self._forget(self._clock())
            return [*reversed(self._kept)]

    def _forget(self, now: float) -> None:
        while self._kept and self._kept[0].time < now - SECONDS:
            self._kept.popleft()


def released_texts(*messages: Message) -> Iterator[str]:
    """Yield all released text in messages to the cloud, by their fields' names."""
    for message in messages:
        for field, found in message.ListFields():
            each = found if field.is_repeated else [found]
            if field.message_type:
                yield from released_texts(*each)
            elif field.name.startswith("released_"):
                yield from each


KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "app": "apps on this device",
        "predict": "classified",
        "chat": "conversations",
        "embed": "embeddings",
        "customize": "training",
        "distill": "votes of teachers",
    }
)
"""The kinds of purposes, and their descriptions for the owner."""


class Purpose(NamedTuple):
    """One of `KINDS`, and the adapter or model of the release, if any."""

    kind: str
    name: str = ""


FOR_APPS: Final = Purpose("app")


DAYS: Final = 30
"""Days that are kept, and reported one by one."""
MOST_NAMES: Final = 256
"""Accounts a day; further charges go to their kind, without a name."""
LONGEST_NAME: Final = 128
DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class Account:
    """The sum of eta and the number of releases of one account on one day."""

    day: int
    purpose: Purpose
    spent: float
    releases: int


class Accounts:
    """Accounts in the agent's database; ``clock`` returns seconds since 1970."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock

    @property
    def today(self) -> int:
        """Today in UTC, as days since 1970."""
        return int(self._clock() // DAY_SECONDS)

    def add(
        self, transaction: sqlite3.Connection, purpose: Purpose, spent: float, releases: int
    ) -> None:
        """Add to one of today's accounts, as part of the caller's transaction."""
        purpose = Purpose(purpose.kind, purpose.name[:LONGEST_NAME])
        self._add(transaction, self.today, purpose, spent, releases)

    def forget(self, name: str) -> None:
        """Move all charges under a name to the nameless accounts of their kinds."""
        with self._store.transaction() as transaction:
            for kind in KINDS:
                named = self._name(Purpose(kind, name[:LONGEST_NAME]))
                sums = transaction.execute(
                    "DELETE FROM accounts WHERE name = ? RETURNING day, spent, releases", (named,)
                ).fetchall()
                for day, spent, releases in sums:
                    self._add(transaction, day, Purpose(kind), spent, releases)

    def _add(
        self,
        transaction: sqlite3.Connection,
        day: int,
        purpose: Purpose,
        spent: float,
        releases: int,
    ) -> None:
        name = self._name(purpose)
        added = transaction.execute(
            "UPDATE accounts SET spent = spent + ?, releases = releases + ?"
            " WHERE day = ? AND name = ?",
            (spent, releases, day, name),
        )
        if added.rowcount:
            return
        (known,) = transaction.execute(
            "SELECT COUNT(*) FROM accounts WHERE day = ?", (day,)
        ).fetchone()
        if known >= MOST_NAMES and purpose.name:
            self._add(transaction, day, Purpose(purpose.kind), spent, releases)
            return
        if not known:
            transaction.execute("DELETE FROM accounts WHERE day <= ?", (day - DAYS,))
        sealed = self._store.seal.seal("\n".join(purpose).encode(), b"account" + name)
        transaction.execute(
            "INSERT INTO accounts VALUES (?, ?, ?, ?, ?)", (day, name, sealed, spent, releases)
        )

    def since(self, day: int) -> list[Account]:
        """Return all accounts from a day on, the newest first."""
        found = self._store.rows(
            "SELECT day, name, sealed, spent, releases FROM accounts WHERE day >= ?"
            " ORDER BY day DESC, spent DESC",
            day,
        )
        return [
            Account(day, self._purpose(name, sealed), spent, releases)
            for day, name, sealed, spent, releases in found
        ]

    def _name(self, purpose: Purpose) -> bytes:
        return self._store.seal.name(b"account", *(part.encode() for part in purpose))

    def _purpose(self, name: bytes, sealed: bytes) -> Purpose:
        kind, _, told = self._store.seal.unseal(sealed, b"account" + name).decode().partition("\n")
        return Purpose(kind, told)


MOST_CHARGED = 1 << 18
"""Digests that are kept: 15 MB at most, and more than a customisation's examples."""

MOST_LABELLED = 400_000
"""Labelled examples that are kept, to charge each once; older ones count anew."""


@dataclass(frozen=True, slots=True)
class Spending:
    """The spending so far.

    Attributes:
        spent: the sum of eta over protected words.
        releases: the number of releases with that eta.
        label_epsilon: the sum of epsilon over randomised labels.
        labels_randomized: the number of these labels.
        labels_as_they_are: the number of labels that left unchanged.
        adapters_private: the number of private adapters that were asked for.
        adapter_epsilon: the sum of their epsilons, as if all had learnt from the same examples.
        adapter_delta: the sum of their deltas, likewise.
    """

    spent: float
    releases: int
    label_epsilon: float = 0.0
    labels_randomized: int = 0
    labels_as_they_are: int = 0
    adapters_private: int = 0
    adapter_epsilon: float = 0.0
    adapter_delta: float = 0.0


class Ledger:
    """Charges releases against `limit`, the permitted sum of eta; 0 is no limit."""

    def __init__(self, store: Store, limit: float) -> None:
        self._store = store
        self.limit = limit
        self.accounts = Accounts(store)
        self.apps = Apps(store)

    def charge(
        self,
        transaction: sqlite3.Connection,
        amount: float,
        releases: int,
        purpose: Purpose = FOR_APPS,
    ) -> None:
        """Charge new releases, as part of the caller's transaction.

        If an app is calling, its daily spending is charged too.

        Args:
            amount: the sum of eta.

        Raises:
            QuotaExceeded: the limit (subject "ledger") or the app's limit (subject "app") would be
                passed; nothing is charged.
            DataLoss: the row was altered.
        """
        app = calling()
        if self.limit and (spent := self._figures(transaction)[0]) + amount > self.limit:
            of_all = f": {spent:.6g} of {self.limit:.6g} eta, and this needs {amount:.6g} more"
            raise QuotaExceeded(
                # An app does not see the owner's figures.
                "the privacy ledger is spent" + ("" if app else of_all),
                fix="raise privacy.ledger_limit, or release less",
                subject="ledger",
            )
        self._add(transaction, spent=amount, releases=releases)
        if releases:
            self.accounts.add(transaction, purpose, amount, releases)
            if app is not None:
                self.apps.charge(transaction, app, amount)

    def charge_labels(
        self, transaction: sqlite3.Connection, examples: Iterable[bytes], epsilon: float
    ) -> None:
        """Charge the labels of `examples`, as part of the caller's transaction.

        An example that is used at several epsilons costs the largest (see `randomized_response`).

        Args:
            examples: keyed hashes that tell examples apart.
            epsilon: of the randomised response; infinity if labels leave unchanged.
        """
        added: list[float] = []
        randomized = as_they_are = 0
        for key in examples:
            row = transaction.execute(
                "SELECT epsilon FROM labelled WHERE key = ?", (key,)
            ).fetchone()
            before = row[0] if row else 0.0
            if before >= epsilon:
                continue
            if math.isinf(epsilon):
                as_they_are += 1
            else:
                added.append(epsilon - before)
                randomized += row is None
            transaction.execute(
                "INSERT INTO labelled (key, epsilon) VALUES (?, ?)"
                " ON CONFLICT (key) DO UPDATE SET epsilon = excluded.epsilon",
                (key, epsilon),
            )
        transaction.execute(
            "DELETE FROM labelled WHERE number <= (SELECT MAX(number) FROM labelled) - ?",
            (MOST_LABELLED,),
        )
        self._add(
            transaction,
            label_epsilon=math.fsum(added),
            labels_randomized=randomized,
            labels_as_they_are=as_they_are,
        )

    def charged(self, digest: bytes) -> bool:
        """Return whether this digest is known to be charged already."""
        return bool(self._store.rows("SELECT 1 FROM charged WHERE digest = ?", digest))

    def first(self, transaction: sqlite3.Connection, digest: bytes) -> bool:
        """Note that ``digest`` is charged in this transaction.

        Returns:
            False if it was charged before.
        """
        noted = transaction.execute("INSERT OR IGNORE INTO charged (digest) VALUES (?)", (digest,))
        if not noted.rowcount:
            return False
        oldest = (noted.lastrowid or 0) - MOST_CHARGED
        transaction.execute("DELETE FROM charged WHERE number <= ?", (oldest,))
        return True

    def charge_once(self, digest: bytes, amount: float, purpose: Purpose = FOR_APPS) -> None:
        """Charge one release unless it was charged already; see `charge_each`."""
        self.charge_each({digest: amount}, purpose)

    def charge_each(
        self, charges: Mapping[bytes, float], purpose: Purpose = FOR_APPS
    ) -> tuple[float, int]:
        """Charge several releases at once, without those charged before: all or none.

        The charge is on disk when this returns.

        Args:
            charges: the cost of each release, by digest.

        Returns:
            The sum that was charged, and the number of releases.

        Raises:
            QuotaExceeded: the limit would be passed, or the disk is full; nothing is charged.
        """
        if all(self.charged(digest) for digest in charges):
            return 0.0, 0
        with self._store.transaction() as transaction:
            new = [amount for digest, amount in charges.items() if self.first(transaction, digest)]
            self.charge(transaction, math.fsum(new), len(new), purpose)
        return math.fsum(new), len(new)

    def charge_adapter(self, transaction: sqlite3.Connection, epsilon: float, delta: float) -> None:
        """Charge a private adapter for its examples, as part of the caller's transaction.

        Each adapter is charged in full: two requests on the same examples reveal twice as much.
        """
        self._add(transaction, adapters_private=1, adapter_epsilon=epsilon, adapter_delta=delta)

    def spending(self) -> Spending:
        """Return the spending so far."""
        return Spending(
            *database.ledger_figures(self._store.rows(database.LEDGER_ROW), self._store.seal)
        )

    def _add(self, transaction: sqlite3.Connection, **amounts: float) -> None:
        """Add to the ledger's figures, once the row is verified, and sign it again."""
        figures = dict(zip(database.LEDGER_FIGURES, self._figures(transaction), strict=True))
        for name, amount in amounts.items():
            figures[name] += amount
        database.write_ledger(transaction, self._store.seal, [*figures.values()])

    def _figures(self, transaction: sqlite3.Connection) -> list[Any]:
        return database.ledger_figures(transaction.execute(database.LEDGER_ROW), self._store.seal)
