"""What is noted of conversations: whom each surrogate stands for, and answers as they came.

Why it is here: clients send the whole conversation each time and keep no map of ours, so the device
notes, sealed, what it needs to go on as it began: no two names with one surrogate, an earlier
surrogate turned back after its turn has been dropped, and of an answer what the cloud wrote, which
may leave again as it is. It is a table of secrets, so it is small, forgets with time, and goes with
the key of the noise.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sottovoce.core.privacy.surrogate_table import Place
from sottovoce.core.privacy.surrogates.document import Owners
from sottovoce.edge.state.caller import calling
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.noise_keys import Keyring
from sottovoce.v1 import generation_pb2 as generation

__all__ = ["MOST_CONVERSATIONS", "Conversation", "Conversations", "Said"]

MOST_CONVERSATIONS: Final = 256
"""Those used longest ago are forgotten beyond that."""

MOST_PLACES: Final = 2_048
MOST_OWNERS: Final = 4_096
LONGEST_ANSWERED: Final = 64 << 10
"""Characters noted of an answer: more than 8,192 tokens of prose, a fraction of what follows, so
that no answer makes the others forgotten. Of a longer one its beginning leaves again."""

MOST_KNOWN: Final = 1_024
MOST_ANSWERED: Final = 8 * LONGEST_ANSWERED
"""Characters of all answers of a conversation together: more than can be sent again."""

_USER: Final = generation.ROLE_USER
_DAY: Final = 86_400
_NEVER: Final = 1 << 62

Said = tuple[int, str]
"""A turn: who, as the wire numbers roles, and what."""


@dataclass(slots=True)
class Conversation:
    """What is known of one conversation.

    Attributes:
        name: 32 bytes; a keyed hash.
        owners: of its surrogates.
        places: where its surrogates stood, oldest first.
        answers: by the digest of what was shown, oldest first; each as it came, after what says who
            was asked and how.
        known: digests of its newest answers, each with the turn before it, oldest first; none of a
            conversation that an app named.
        epoch: of the key of the noise when it was found.
    """

    name: bytes
    owners: Owners = field(default_factory=dict)
    places: dict[Place, None] = field(default_factory=dict)
    answers: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    known: dict[bytes, None] = field(default_factory=dict)
    epoch: int = 0

    @property
    def session(self) -> str:
        """Names the conversation to the privatizer."""
        return self.name.hex()

    def observed(self, places: Iterable[Place]) -> None:
        """Notes what surrogates stand for."""
        new = dict.fromkeys(place for place in places if place.released != place.true)
        self.places = self.places | new

    def answered(self, digest: bytes, what: str, came: str) -> None:
        """Notes an answer as the newest."""
        self.answers.pop(digest, None)
        self.answers[digest] = what, came[:LONGEST_ANSWERED]


class Conversations:
    """Conversations sealed in ``store``, each for ``days`` after its last use; 0 keeps none."""

    def __init__(self, store: Store, days: int) -> None:
        self._store = store
        self._days = days
        self._keyring = Keyring(store)
        if store.rows("SELECT 1 FROM conversations WHERE day < ?", self._oldest):
            with store.transaction() as transaction:
                self._forget(transaction)

    def digest(self, *said: str) -> bytes:
        """By what an answer is known, alone or after the turn before it."""
        return self._name(b"answer", *(text.encode("utf-8", "replace") for text in said))

    def seed(self, given: int) -> int:
        """What leaves in place of an app's seed: a hash of it under the device's key, below 2**31.

        An app may have made its seed of a customer's number or of a date. Equal seeds stay equal,
        so an answer can still be asked for again.
        """
        return int.from_bytes(self._store.seal.name(b"seed", str(given).encode())[:4], "big") >> 1

    def find(self, named: str, turns: Sequence[Said], answers: Iterable[bytes]) -> Conversation:
        """The conversation that ``turns`` belong to, a new one if none is known.

        Args:
            named: by the app; else it is known by how it opens, up to the first turn of a user:
                the same opening again is the same conversation, with the same surrogates. Where no
                conversation opened like that, as the first turns were dropped, it is known by
                ``answers``, the newest first.
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
        """Notes a conversation, and what another call has noted of it meanwhile; drops what is old
        or too much. What was found under another key of the noise is not noted: the owner has
        rotated it away.

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
        """Of each app's own: one that says what another has said, or takes the name of its
        conversation, gets nothing turned back that was the other's."""
        app = calling()
        own = () if app is None else (b"app", app.key)
        return self._store.seal.name(kind, *parts, *own)

    @property
    def _oldest(self) -> int:
        """The first day of which anything is kept: where nothing is to be, one to come."""
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
        epoch = self._keyring.epoch  # first: what is rotated away meanwhile is not noted again
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
    """Days since 1970."""
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
    """The newest that together have no more characters."""
    kept: list[bytes] = []
    for digest in reversed(answers):
        most -= len(answers[digest][1])
        if most < 0:
            break
        kept.append(digest)
    return {digest: answers[digest] for digest in reversed(kept)}
