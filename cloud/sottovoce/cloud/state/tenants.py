"""Who may use the cloud: names and the hashes of their tokens.

A token is 32 random bytes made here, never a password a person chose, so a
plain SHA-256 is enough to keep a stolen database from being a set of keys.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from sottovoce.cloud.config import check_name
from sottovoce.cloud.state.database import Database
from sottovoce.core.errors import InvalidInput, Unauthenticated

__all__ = ["Tenants"]

TENANT_KEY = "sottovoce-tenant"
TOKEN_KEY = "authorization"  # noqa: S105 - the name of a header
_BEARER = "Bearer "


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class Tenants:
    """The tenants in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def enroll(self, name: str) -> str:
        """Adds a tenant and gives its token, which is shown this once.

        Raises:
            InvalidInput: a bad name, or one that is taken.
        """
        check_name(name, "tenant")
        token = secrets.token_urlsafe(32)
        with self._database.write() as transaction:
            added = transaction.change(
                "INSERT INTO tenants (name, token_sha256, created) VALUES (:name, :hash, :now) "
                "ON CONFLICT (name) DO NOTHING",
                name=name,
                hash=_hash(token),
                now=transaction.now(),
            )
        if not added:
            raise InvalidInput(
                f"tenant {name!r} exists",
                fix="choose another name, or renew its token with `sotto-cloud enroll --renew`",
                subject="tenant",
            )
        return token

    def renew(self, name: str) -> str:
        """A new token for an existing tenant; the old one stops working at once.

        Raises:
            InvalidInput: no such tenant.
        """
        token = secrets.token_urlsafe(32)
        with self._database.write() as transaction:
            changed = transaction.change(
                "UPDATE tenants SET token_sha256 = :hash WHERE name = :name",
                hash=_hash(token),
                name=name,
            )
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
        with self._database.read() as transaction:
            row = transaction.row("SELECT token_sha256 FROM tenants WHERE name = :name", name=name)
        given = _hash(bearer.removeprefix(_BEARER).strip())
        if row is None or not hmac.compare_digest(given, row["token_sha256"]):
            raise Unauthenticated(
                "unknown tenant or wrong token",
                fix="ask the provider for a token (`sotto-cloud enroll TENANT`)",
            )
        return name
