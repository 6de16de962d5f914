"""Who may use the cloud: names and the hashes of their tokens.

A token is 32 random bytes made here, never a password a person chose, so a
plain SHA-256 is enough to keep a stolen database from being a set of keys.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
import time
from collections.abc import Iterable

from sottovoce.cloud.config import check_name
from sottovoce.cloud.state.database import Store
from sottovoce.core.errors import InvalidInput, Unauthenticated

__all__ = ["Tenants"]

TENANT_KEY = "sottovoce-tenant"
TOKEN_KEY = "authorization"  # noqa: S105 - the name of a header
_BEARER = "Bearer "


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class Tenants:
    """The tenants in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def enroll(self, name: str) -> str:
        """Adds a tenant and gives its token, which is shown this once.

        Raises:
            InvalidInput: a bad name, or one that is taken.
        """
        check_name(name, "tenant")
        token = secrets.token_urlsafe(32)
        try:
            with self._store.write() as connection:
                connection.execute(
                    "INSERT INTO tenants VALUES (?, ?, ?)", (name, _hash(token), time.time())
                )
        except sqlite3.IntegrityError as error:
            raise InvalidInput(
                f"tenant {name!r} exists",
                fix="choose another name, or renew its token with `sotto-cloud enroll --renew`",
                subject="tenant",
            ) from error
        return token

    def renew(self, name: str) -> str:
        """A new token for an existing tenant; the old one stops working at once.

        Raises:
            InvalidInput: no such tenant.
        """
        token = secrets.token_urlsafe(32)
        with self._store.write() as connection:
            changed = connection.execute(
                "UPDATE tenants SET token_sha256 = ? WHERE name = ?", (_hash(token), name)
            ).rowcount
        if not changed:
            raise InvalidInput(
                f"no tenant {name!r}", fix="enroll it without --renew", subject="tenant"
            )
        return token

    def authenticate(self, metadata: Iterable[tuple[str, str | bytes]]) -> str:
        """The tenant a call comes from.

        Raises:
            Unauthenticated: metadata missing, unknown tenant or wrong token; the
                last two are not told apart, so that names cannot be probed.
        """
        found = {key: value for key, value in metadata if isinstance(value, str)}
        name, bearer = found.get(TENANT_KEY, ""), found.get(TOKEN_KEY, "")
        if not name or not bearer.startswith(_BEARER):
            raise Unauthenticated(
                "the call names no tenant or carries no token",
                fix=f"send the metadata {TENANT_KEY!r} and {TOKEN_KEY!r} ('Bearer TOKEN'); on the "
                "device set cloud.tenant and cloud.token_file",
            )
        with self._store.read() as connection:
            row = connection.execute(
                "SELECT token_sha256 FROM tenants WHERE name = ?", (name,)
            ).fetchone()
        given = _hash(bearer.removeprefix(_BEARER).strip())
        if row is None or not hmac.compare_digest(given, row["token_sha256"]):
            raise Unauthenticated(
                "unknown tenant or wrong token",
                fix="ask the provider for a token (`sotto-cloud enroll TENANT`)",
            )
        return name
