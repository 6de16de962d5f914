"""Releases texts under the device's key: the same document is the same bytes, and is charged once.

Why it is here: key, ledger and privatizer meet here. The charge is on disk before the release is
given out, so no crash can lose the charge of what someone has seen; and after a crash in between,
the same document is the same release, charged already.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.privacy.surrogates.document import Owners
from sottovoce.core.system import memory
from sottovoce.edge.state.ledger import Ledger
from sottovoce.edge.state.noise_keys import Keyring
from sottovoce.edge.state.purpose import FOR_APPS, Purpose
from sottovoce.edge.tasks.engine import Engine, OpenBundle
from sottovoce.v1 import edge_agent_pb2

__all__ = ["LONG", "LONGEST_SESSION", "Drawn", "Releases", "resolve", "to_response"]

LONGEST_SESSION = 128
"""Bytes of UTF-8 that the name of a conversation may have."""

LONG: Final = 1 << 15
"""Characters of a text that takes a tenth of a second, and megabytes for its words."""
_AT_ONCE: Final = {LONG: 1, 1 << 13: 2, 0: 4}
"""How many texts are worked on at the same time: by the least characters of a kind, as many of that
kind. None waits for one of another kind."""


def resolve(options: edge_agent_pb2.PrivacyOptions, default: Setting) -> Setting:
    """What the caller asked for, gaps filled from `default`."""
    return Setting(
        level=options.level or default.level,
        mechanism=options.mechanism or default.mechanism,
        policy=options.policy or default.policy,
    )


def to_response(release: Release, *, words: bool) -> edge_agent_pb2.PrivatizeResponse:
    """The release as it is told to apps on the device, with a report on its words or without."""
    return edge_agent_pb2.PrivatizeResponse(
        text=release.text,
        words=[
            edge_agent_pb2.ReleasedWord(
                start=word.start,
                end=word.end,
                released_start=word.released_start,
                released_end=word.released_end,
                tag=word.tag,
                protected=word.protected,
                replaced=word.replaced,
                treatment=edge_agent_pb2.Treatment.Name(word.treatment),
            )
            for word in release.each_word()
        ]
        if words
        else (),
        level=release.setting.level,
        mechanism=release.setting.mechanism,
        eta=release.eta,
        bundle_id=release.bundle_id,
    )


@dataclass(frozen=True, slots=True)
class Drawn:
    """A release that is not charged yet, and what the ledger knows it by."""

    release: Release
    digest: bytes


class Releases:
    """Privatises through `engine` under the key of `keyring`, and charges to `ledger`."""

    def __init__(self, engine: Engine, keyring: Keyring, ledger: Ledger) -> None:
        self._engine = engine
        self._keyring = keyring
        self._ledger = ledger
        self._turns = {least: threading.Semaphore(most) for least, most in _AT_ONCE.items()}

    def check_session(self, session: str) -> None:
        """Refuses too long a name of a conversation.

        Raises:
            InvalidInput: it is.
        """
        if len(session.encode("utf-8", "surrogatepass")) > LONGEST_SESSION:
            raise InvalidInput(
                "the session's name is too long",
                fix=f"use at most {LONGEST_SESSION} bytes",
                subject="session",
            )

    def release(
        self, document: str, setting: Setting, session: str = "", purpose: Purpose = FOR_APPS
    ) -> Release:
        """The release of `document`, charged.

        Args:
            document: the text.
            setting: how to privatise it.
            session: the conversation it belongs to, if any; see `Privatizer.release`.
            purpose: what it is for.

        Raises:
            InvalidInput: not a text, or too long a name of a session.
            NotFound: unknown level, mechanism or policy.
            NotReady: no bundle. QuotaExceeded: the ledger's limit or the disk.
        """
        self.check_session(session)
        drawn = self.drawn(self._engine.current(), document, setting, session)
        self._ledger.charge_once(drawn.digest, drawn.release.charge, purpose)
        return drawn.release

    def charge(self, drawn: Iterable[Drawn], purpose: Purpose) -> tuple[float, int]:
        """Charges what was drawn: all or none.

        Returns:
            What was charged, and for how many; the others were charged before.

        Raises:
            QuotaExceeded: the ledger's limit or the disk.
        """
        charges = {each.digest: each.release.charge for each in drawn}
        return self._ledger.charge_each(charges, purpose)

    def drawn(
        self,
        opened: OpenBundle,
        document: str,
        setting: Setting,
        session: str = "",
        owners: Owners | None = None,
    ) -> Drawn:
        """The same over one bundle, not to be given out before it is charged."""
        key = self._keyring.current()
        with self._room_for(document):
            release = opened.privatizer.release(
                document, setting, key=key, session=session, owners=owners
            )
        # Level and policy count by what they mean: under two names of one strength the release is
        # the same. A session does not, as no surrogate tells anything of what it stands for.
        mechanism = repr(opened.privatizer.mechanism(setting))
        what = (mechanism, self._engine.fingerprint, opened.bundle.id, document)
        return Drawn(release, key.name("release", *what))

    @contextmanager
    def _room_for(self, document: str) -> Iterator[None]:
        """Keeps what texts need while they are worked on within bounds, whoever asks for how many.
        What a long one reads of the bundle is not resident together with what ran before or next.
        """
        long = len(document) >= LONG
        with next(turn for least, turn in self._turns.items() if len(document) >= least):
            if long:
                memory.give_back_if_grown()
            try:
                yield
            finally:
                if long:
                    memory.give_back_if_grown()
