"""What texts should have been called, as their owner says: kept, sealed, until it was learnt.

Why it is here: these are texts in clear, so there are few of them, and one is gone once it was
learnt or has another label; what goes is overwritten. A customisation that takes some notes so in
the transaction that queues them, and the transaction that notes its end drops them, or gives them
back where it failed or was cancelled: whenever a process dies, none is lost, and none is in two
customisations at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sottovoce.core.errors import NotReady, QuotaExceeded
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.sealing import Seal
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["Correction", "Corrections", "forget_all", "settle"]


@dataclass(frozen=True, slots=True)
class Correction:
    """A text and what it should have been called.

    Attributes:
        number: of this pair and no other, ever; the newest has the largest.
        text, label: as the owner wrote them.
    """

    number: int
    text: str
    label: str


class Corrections:
    """The corrections of all adapters, known by the owner's name for them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, adapter: str, pairs: Iterable[tuple[str, str]], most: int) -> None:
        """Keeps texts with their labels, all of them or none. A text's new label takes the place of
        an earlier one, which is learnt no more unless a customisation has it already.

        Args:
            adapter: by name.
            pairs: (text, label).
            most: how many an adapter may have.

        Raises:
            QuotaExceeded: they would be more, or the disk is full. DataLoss: what is there already
                was altered.
        """
        owner = _owner(self._store.seal, adapter)
        with self._store.transaction() as transaction:
            before = _count(transaction, owner)
            replaced = [self._put(transaction, owner, text, label) for text, label in pairs]
            held = _count(transaction, owner)
            if held > max(before, most):
                raise QuotaExceeded(
                    f"{adapter!r} has {before} corrections, and may have {most}",
                    fix=f"`sotto customize {adapter} --add --corrections` teaches them, `sotto "
                    f"corrections {adapter} --forget` forgets them, predict.corrections sets how "
                    "many there may be",
                    subject="predict.corrections",
                )
        if any(replaced):
            self._store.overwrite_if_possible()

    def count(self, adapter: str) -> tuple[int, int]:
        """How many wait, and how many a customisation that has not ended has taken."""
        ((held, taken),) = self._store.rows(
            "SELECT COUNT(*), COUNT(taken) FROM corrections WHERE adapter = ?",
            _owner(self._store.seal, adapter),
        )
        return held - taken, taken

    def waiting(self, adapter: str) -> Iterator[Correction]:
        """Those that no customisation has taken, the oldest first.

        Raises:
            DataLoss: one was altered.
        """
        owner, last = _owner(self._store.seal, adapter), 0
        while rows := self._store.rows(
            "SELECT number, text, sealed FROM corrections"
            " WHERE adapter = ? AND taken IS NULL AND number > ? ORDER BY number LIMIT 1",
            owner,
            last,
        ):
            ((last, key, sealed),) = rows
            pair = self._read(key, sealed)
            yield Correction(last, pair.text, pair.label)

    def take(
        self, transaction: sqlite3.Connection, numbers: Iterable[int], customization: str
    ) -> None:
        """Notes in the caller's transaction that a customisation has them.

        Raises:
            NotReady: one is no longer there, or has another label now, or is taken.
        """
        for number in numbers:
            taken = transaction.execute(
                "UPDATE corrections SET taken = ? WHERE number = ? AND taken IS NULL",
                (customization, number),
            )
            if not taken.rowcount:
                raise NotReady(
                    "the corrections have changed meanwhile", fix="try again", subject="corrections"
                )

    def forget(self, adapter: str, text: str = "") -> int:
        """Forgets all of an adapter, or the one of ``text``; how many. What a customisation has
        taken leaves with it as before, and does not come back.

        Raises:
            Unavailable: they are forgotten, but could not be overwritten everywhere yet.
        """
        owner = _owner(self._store.seal, adapter)
        with self._store.transaction() as transaction:
            gone = transaction.execute(
                "DELETE FROM corrections WHERE adapter = ? AND (? OR text = ?)",
                (owner, not text, _key(self._store.seal, owner, text)),
            )
        self._store.overwrite()
        return gone.rowcount

    def _put(self, transaction: sqlite3.Connection, owner: bytes, text: str, label: str) -> bool:
        """Whether it took the place of others."""
        key = _key(self._store.seal, owner, text)
        query = "SELECT sealed FROM corrections WHERE text = ?"
        before = transaction.execute(query, (key,)).fetchall()
        for (sealed,) in before:
            if self._read(key, sealed).label == label:
                return False
            transaction.execute("DELETE FROM corrections WHERE text = ?", (key,))
        pair = agent.LabelledText(text=text, label=label)
        transaction.execute(
            "INSERT INTO corrections (adapter, text, sealed) VALUES (?, ?, ?)",
            (owner, key, self._store.seal.seal(pair.SerializeToString(), _place(key))),
        )
        return bool(before)

    def _read(self, key: bytes, sealed: bytes) -> agent.LabelledText:
        return agent.LabelledText.FromString(self._store.seal.unseal(sealed, _place(key)))


def settle(transaction: sqlite3.Connection, customization: str, *, learnt: bool) -> bool:
    """Drops what a customisation had taken if it was learnt, else gives it back, in the transaction
    that notes its end. Whether anything was dropped, which is to be overwritten after it."""
    what = "DELETE FROM corrections" if learnt else "UPDATE corrections SET taken = NULL"
    changed = transaction.execute(f"{what} WHERE taken = ?", (customization,))
    return learnt and changed.rowcount > 0


def forget_all(transaction: sqlite3.Connection, seal: Seal, adapter: str) -> bool:
    """Forgets those of an adapter in the transaction that forgets the adapter. Whether there were
    any, which are to be overwritten after it."""
    query = "DELETE FROM corrections WHERE adapter = ?"
    return transaction.execute(query, (_owner(seal, adapter),)).rowcount > 0


def _count(transaction: sqlite3.Connection, owner: bytes) -> int:
    query = "SELECT COUNT(*) FROM corrections WHERE adapter = ?"
    return int(transaction.execute(query, (owner,)).fetchone()[0])


def _owner(seal: Seal, adapter: str) -> bytes:
    return seal.name(b"corrected", adapter.encode())


def _key(seal: Seal, owner: bytes, text: str) -> bytes:
    return seal.name(b"correction", owner, text.encode())


def _place(key: bytes) -> bytes:
    return b"correction " + key
