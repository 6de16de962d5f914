"""Notes about conversations: the owners of surrogates, and the cloud's answers.

Clients send the whole conversation each time and do not keep our table of surrogates. So the device
keeps a sealed note, to continue consistently:

- Two names never share one surrogate.
- A surrogate is turned back even after its turn was dropped.
- An answer may leave again as the cloud wrote it.

These notes are secrets, so they are small, expire, and are deleted with the noise key.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sottovoce.core.privacy.surrogate_table import Place
from sottovoce.core.privacy.surrogates.surrogate import Owners
from sottovoce.edge.state.apps import calling
from sottovoce.edge.state.database import NoiseKeys, Store
from sottovoce.v1 import generation_pb2 as generation

MOST_CONVERSATIONS: Final = 256
"""Number of conversations kept; beyond that, those used longest ago are deleted."""

MOST_PLACES: Final = 2_048
MOST_OWNERS: Final = 4_096
LONGEST_ANSWERED: Final = 64 << 10
"""Characters kept of an answer.

This is more than 8,192 tokens of prose, and a fraction of `MOST_ANSWERED`, so one answer cannot
displace all the others. Of a longer answer, only the beginning leaves again unchanged.
"""

MOST_KNOWN: Final = 1_024
MOST_ANSWERED: Final = 8 * LONGEST_ANSWERED
"""Characters of all answers of a conversation: more than can be sent again."""

_USER: Final = generation.ROLE_USER
_DAY: Final = 86_400
_NEVER: Final = 1 << 62

Said = tuple[int, str]
"""A turn: the role, as the wire numbers it, and the text."""


@dataclass(slots=True)
class Conversation:
    """The notes about one conversation.

    Attributes:
        name: a keyed hash of 32 bytes.
        owners: the owners of its surrogates.
        places: the places of its surrogates, the oldest first.
        answers: by the digest of the shown answer, the oldest first: the server and settings that
            were asked, and the answer as it came.
        known: digests of its newest answers, each with the turn before it, the oldest first; empty
            for a conversation that an app named.
        epoch: the epoch of the noise key when the conversation was read.
    """

    name: bytes
    owners: Owners = field(default_factory=dict)
    places: dict[Place, None] = field(default_factory=dict)
    answers: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    known: dict[bytes, None] = field(default_factory=dict)
    epoch: int = 0

    @property
    def session(self) -> str:
        """The conversation's name for the privatizer."""
        return self.name.hex()

    def observed(self, places: Iterable[Place]) -> None:
        """Note the originals of surrogates."""
        new = dict.fromkeys(place for place in places if place.released != place.true)
        self.places = self.places | new

    def answered(self, digest: bytes, what: str, came: str) -> None:
        """Note an answer as the newest."""
        self.answers.pop(digest, None)
        self.answers[digest] = what, came[:LONGEST_ANSWERED]

    def came(self, digest: bytes, what: str) -> str | None:
        """Return a noted answer as it came, if ``what`` was the same then."""
        asked_as, came = self.answers.get(digest, ("", ""))
        return came if asked_as == what else None


class Conversations:
    """Conversations sealed in a store, each for some days after its last use.

    Args:
        days: how long they are kept; 0 keeps none.
    """

    def __init__(self, store: Store, days: int) -> None:
        self._store = store
        self._days = days
        self._keyring = NoiseKeys(store)
        if store.rows("SELECT 1 FROM conversations WHERE day < ?", self._oldest):
            with store.transaction() as transaction:
                self._forget(transaction)

    def digest(self, *said: str) -> bytes:
        """Return the key of an answer, taken alone or with the turn before it.

        Blanks at the ends of a text and of its lines do not count, because some clients strip them.
        """
        texts = ("\n".join(map(str.rstrip, text.strip().splitlines())) for text in said)
        return self._name(b"answer", *(text.encode("utf-8", "replace") for text in texts))

    def seed(self, given: int) -> int:
        """Return the seed to send instead of an app's seed: a keyed hash below 2**31.

        An app may derive its seed from a customer's number or a date. Equal seeds stay equal, so an
        app can still ask for the same answer again.
        """
        return int.from_bytes(self._store.seal.name(b"seed", str(given).encode())[:4], "big") >> 1

    def find(self, named: str, turns: Sequence[Said], answers: Iterable[bytes]) -> Conversation:
        """Return the conversation that ``turns`` belong to, or a new one.

        Args:
            named: the app's name for the conversation. If empty, the turns up to the first user
                turn identify it: the same opening is the same conversation, with the same
                surrogates. If no conversation opened like that, because the first turns were
                dropped, ``answers`` identify it, the newest first.
            turns: at least one.
            answers: digests of answers among the turns, each with the turn before it.
        """
        if named:
            return self._read(self._name(b"conversation", named.encode()))
        roles = [role for role, _ in turns]
        opening = roles.index(_USER if _USER in roles else roles[-1]) + 1
        parts = (f"{role} {text}".encode("utf-8", "replace") for role, text in turns[:opening])
        opened = self._name(b"opening", *parts)
        if not self._store.rows("SELECT 1 FROM conversations WHERE name = ?", opened):
            for digest in answers:
                for (name,) in self._store.rows(
                    "SELECT conversation FROM answers WHERE digest = ?", digest
                ):
                    return self._read(name)
        return self._read(opened)

    def keep(self, conversation: Conversation) -> None:
        """Write a conversation, merged with the notes of other calls; delete old ones.

        A conversation that was read under another noise key is not written, because the owner has
        rotated that key away.

        Raises:
            QuotaExceeded: the disk is full.
        """
        if not self._days:
            return
        with self._store.transaction() as transaction:
            noted = self._read(conversation.name)
            if noted.epoch != conversation.epoch:
                return
            merged = Conversation(
                conversation.name,
                _newest(noted.owners | conversation.owners, MOST_OWNERS),
                _newest(noted.places | conversation.places, MOST_PLACES),
                _within(noted.answers | conversation.answers, MOST_ANSWERED),
                _newest(noted.known | conversation.known, MOST_KNOWN),
            )
            sealed = self._store.seal.seal(_packed(merged), _place(merged.name))
            transaction.execute(
                "INSERT OR REPLACE INTO conversations (name, day, sealed) VALUES (?, ?, ?)",
                (merged.name, _today(), sealed),
            )
            transaction.execute("DELETE FROM answers WHERE conversation = ?", (merged.name,))
            transaction.executemany(
                "INSERT OR REPLACE INTO answers VALUES (?, ?)",
                [(digest, merged.name) for digest in merged.known],
            )
            self._forget(transaction)

    def _name(self, kind: bytes, *parts: bytes) -> bytes:
        """Return a keyed hash that differs for each app.

        An app that repeats another app's text or conversation name gets none of its words turned
        back.
        """
        app = calling()
        own = () if app is None else (b"app", app.key)
        return self._store.seal.name(kind, *parts, *own)

    @property
    def _oldest(self) -> int:
        """The first day that is kept; a day in the far future if nothing is kept."""
        return _today() - self._days if self._days else _NEVER

    def _forget(self, transaction: sqlite3.Connection) -> None:
        transaction.execute(
            "DELETE FROM conversations WHERE day < ? OR number NOT IN"
            " (SELECT number FROM conversations ORDER BY number DESC LIMIT ?)",
            (self._oldest, MOST_CONVERSATIONS),
        )
        transaction.execute(
            "DELETE FROM answers WHERE conversation NOT IN (SELECT name FROM conversations)"
        )

    def _read(self, name: bytes) -> Conversation:
        epoch = self._keyring.epoch  # first, in case of a rotation meanwhile
        rows = self._store.rows(
            "SELECT sealed FROM conversations WHERE name = ? AND day >= ?", name, self._oldest
        )
        if not rows:
            return Conversation(name, epoch=epoch)
        held = json.loads(self._store.seal.unseal(rows[0][0], _place(name)))
        return Conversation(
            name,
            {drawn: (sort, form) for drawn, sort, form in held["owners"]},
            dict.fromkeys(Place(*place) for place in held["places"]),
            {bytes.fromhex(digest): (what, came) for digest, what, came in held["answers"]},
            dict.fromkeys(map(bytes.fromhex, held.get("known", ()))),
            epoch,
        )


def _today() -> int:
    """Return today as days since 1970."""
    return int(time.time()) // _DAY


def _packed(conversation: Conversation) -> bytes:
    held = {
        "owners": [[drawn, *owner] for drawn, owner in conversation.owners.items()],
        "places": [*conversation.places],
        "answers": [[key.hex(), *answer] for key, answer in conversation.answers.items()],
        "known": [key.hex() for key in conversation.known],
    }
    return json.dumps(held).encode()


def _place(name: bytes) -> bytes:
    return b"conversation " + name


def _newest(held: dict, most: int) -> dict:  # type: ignore[type-arg]
    return dict([*held.items()][-most:])


def _within(answers: dict[bytes, tuple[str, str]], most: int) -> dict[bytes, tuple[str, str]]:
    """Return the newest answers that together have at most ``most`` characters."""
    kept: list[bytes] = []
    for digest in reversed(answers):
        most -= len(answers[digest][1])
        if most < 0:
            break
        kept.append(digest)
    return {digest: answers[digest] for digest in reversed(kept)}
