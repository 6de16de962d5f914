"""The owner's corrections: texts with their right labels, sealed until learnt.

These are the original texts, so their number is limited. A correction is deleted once it was learnt
or its text gets another label, and its bytes are overwritten. A customisation takes corrections in
the transaction that queues it. The transaction that notes its end deletes them, or gives them back
if the customisation failed or was cancelled. So a crash at any moment loses no correction, and no
correction is in two customisations at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sottovoce.core.errors import NotReady, QuotaExceeded
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.device_key import Seal
from sottovoce.v1 import edge_agent_pb2 as agent


@dataclass(frozen=True, slots=True)
class Correction:
    """A text and its right label.

    Attributes:
        number: never used for another pair; the newest has the largest.
        text, label: as the owner wrote them.
    """

    number: int
    text: str
    label: str


class Corrections:
    """The corrections of all adapters, by the owner's names for the adapters."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, adapter: str, pairs: Iterable[tuple[str, str]], most: int) -> None:
        """Keep texts with their labels: all or none.

        A new label replaces a text's earlier label. The earlier label is then learnt only if a
        customisation has taken it already.

        Args:
            pairs: (text, label).
            most: the largest number of corrections for one adapter.

        Raises:
            QuotaExceeded: there would be more than ``most``, or the disk is full. DataLoss: an
                existing correction was altered.
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
        """Return the numbers of waiting and of taken corrections.

        A correction is taken while a customisation that has not ended has it.
        """
        ((held, taken),) = self._store.rows(
            "SELECT COUNT(*), COUNT(taken) FROM corrections WHERE adapter = ?",
            _owner(self._store.seal, adapter),
        )
        return held - taken, taken

    def waiting(self, adapter: str) -> Iterator[Correction]:
        """Yield the corrections that no customisation has taken, the oldest first."""
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
        """Note in the caller's transaction that a customisation has these corrections."""
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
        """Delete an adapter's corrections, or the correction of ``text``; return their number.

        A customisation that has taken a correction still learns it, and does not give it back.

        Raises:
            Unavailable: the corrections are deleted, but could not be overwritten everywhere yet.
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
        """Write a correction; return whether it replaced another."""
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
    """Delete a customisation's corrections if they were learnt, else give them back.

    This runs in the transaction that notes the customisation's end.

    Returns:
        Whether any was deleted. The caller then overwrites the database after the transaction.
    """
    what = "DELETE FROM corrections" if learnt else "UPDATE corrections SET taken = NULL"
    changed = transaction.execute(f"{what} WHERE taken = ?", (customization,))
    return learnt and changed.rowcount > 0


def forget_all(transaction: sqlite3.Connection, seal: Seal, adapter: str) -> bool:
    """Delete an adapter's corrections in the transaction that deletes the adapter.

    Returns:
        Whether there were any. The caller then overwrites the database after the transaction.
    """
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
