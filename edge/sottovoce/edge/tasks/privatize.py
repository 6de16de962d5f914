"""Releases texts: once each. The same document under the same settings is the same bytes for ever.

Why it is here: fresh noise on a repeated document averages out, so a release is remembered, under a
keyed hash of the document, and given again. Charge and memory are one transaction that ends before
the release is given out: no crash can lose a release that someone has seen, nor its charge.
"""

from __future__ import annotations

import sqlite3
import zlib

from sottovoce.core.errors import DataLoss
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.setting import Setting
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.ledger import Ledger
from sottovoce.edge.tasks.engine import Engine
from sottovoce.v1 import edge_agent_pb2

__all__ = ["Releases", "resolve", "to_response"]


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


class Releases:
    """Privatises through `engine`, remembers in `store`, charges to `ledger`."""

    def __init__(self, engine: Engine, store: Store, ledger: Ledger) -> None:
        self._engine = engine
        self._store = store
        self._ledger = ledger

    def release(self, document: str, setting: Setting) -> Release:
        """The release of `document`, made now or remembered.

        Raises:
            InvalidInput: not a text. NotFound: unknown level, mechanism or policy.
            NotReady: no bundle. QuotaExceeded: the ledger's limit or the disk.
        """
        opened = self._engine.current()
        key = self.key(document, setting, opened.bundle.id)
        remembered = self._store.rows("SELECT sealed FROM releases WHERE key = ?", key)
        if remembered:
            return self.unsealed(remembered[0][0], key, document)
        release = opened.privatizer.release(document, setting)
        sealed = self.sealed(release, key)
        with self._store.transaction() as transaction:
            kept = self.remember(transaction, key, sealed)
            if kept == sealed:
                self._ledger.charge(transaction, release.charge, 1)
        return release if kept == sealed else self.unsealed(kept, key, document)

    def key(self, document: str, setting: Setting, bundle_id: str) -> bytes:
        """What the release of `document` is remembered under."""
        parts = (
            setting.level,
            setting.mechanism,
            setting.policy,
            self._engine.fingerprint,
            bundle_id,
            document,
        )
        return self._store.seal.name(b"release", *(part.encode() for part in parts))

    def sealed(self, release: Release, key: bytes) -> bytes:
        """`release` encrypted for its place in the memo."""
        return self._store.seal.seal(release.pack(), b"release" + key)

    def remember(self, transaction: sqlite3.Connection, key: bytes, sealed: bytes) -> bytes:
        """Stores `sealed` unless something is stored under `key`; returns what is stored."""
        transaction.execute("INSERT OR IGNORE INTO releases VALUES (?, ?)", (key, sealed))
        (kept,) = transaction.execute(
            "SELECT sealed FROM releases WHERE key = ?", (key,)
        ).fetchone()
        return bytes(kept)

    def unsealed(self, sealed: bytes, key: bytes, document: str = "") -> Release:
        """A release as `remember` returned it; without its document it cannot tell its words."""
        packed = self._store.seal.unseal(sealed, b"release" + key)
        try:
            return Release.unpack(packed, document)
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            raise DataLoss(
                "a remembered release cannot be read",
                fix="move the agent's state away to start afresh",
                subject="state",
            ) from error
