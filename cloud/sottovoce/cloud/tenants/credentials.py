"""Tokens of tenants: one for each device, with a name, a scope and a lifetime.

A token is 32 random bytes, never a password. So a plain SHA-256 is enough to make a stolen database
useless. Lookup by this hash also leaks nothing through its timing.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sottovoce.cloud.config import check_name
from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database, Row, Transaction, when
from sottovoce.cloud.tenants import quotas
from sottovoce.core.errors import InvalidInput, NotFound

FIRST: Final = "first"
"""The name of a tenant's first token."""
MOST: Final = 10_000
"""The most valid tokens of one tenant."""
_REMEMBERED: Final = 100
"""Ended tokens kept for each tenant, so that their owners get a precise error."""
VALID: Final = "revoked = 0 AND (ends IS NULL OR ends > :now)"
"""A condition on a row of ``credentials``."""
_TOLD: Final = "number, tenant, name, scope, created, ends, revoked"


class Scope(StrEnum):
    """The permitted use of a token."""

    ALL = "all"
    TRAIN = "train"
    """Customisation jobs."""
    PREDICT = "predict"
    """Predictions, embeddings and generated texts."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A token's record, without the token. Times in seconds since 1970; ``ends`` None: never."""

    number: int
    tenant: str
    name: str
    scope: Scope
    created: float
    ends: float | None
    revoked: bool

    def valid_at(self, now: float) -> bool:
        """Return whether the token is valid at that time."""
        return not self.revoked and (self.ends is None or self.ends > now)


def made() -> str:
    return secrets.token_urlsafe(32)


def hashed(token: str) -> bytes:
    """Return the hash of a token, which the database stores."""
    return hashlib.sha256(token.encode()).digest()


def add(
    transaction: Transaction,
    tenant: str,
    name: str,
    token_sha256: bytes,
    *,
    scope: Scope = Scope.ALL,
    seconds: float | None = None,
    replace: bool = False,
    grace: float = 0.0,
    device: str = "",
) -> float | None:
    """Add the token with that hash.

    Args:
        seconds: lifetime from now on; None for ever.
        replace: tokens of this name end, ``grace`` seconds from now.
        device: the name of the certificate that the token is bound to; "" binds the first, see
            `Tenants.authenticate`.

    Returns:
        When it ends, in seconds since 1970; None: never.

    Raises:
        InvalidInput: see `check_name_free`; too many tokens, or a token that exists already.
    """
    quotas.lock(transaction, tenant)
    check_name_free(transaction, tenant, name, replace=replace)
    now = transaction.now()
    if replace:
        transaction.change(
            "UPDATE credentials SET ends = :now "
            f"WHERE tenant = :tenant AND name = :name AND {VALID}",
            tenant=tenant,
            name=name,
            now=now + grace,
        )
    if _count(transaction, tenant, now) >= MOST:
        raise InvalidInput(
            f"{tenant} has {MOST} tokens",
            fix="revoke some with `sotto-cloud tokens revoke`",
            subject="tenant",
        )
    ends = None if seconds is None else now + seconds
    added = transaction.change(
        "INSERT INTO credentials (tenant, name, token_sha256, scope, created, ends, device) "
        "VALUES (:tenant, :name, :hash, :scope, :now, :ends, :device) "
        "ON CONFLICT (token_sha256) DO NOTHING",
        tenant=tenant,
        name=name,
        hash=token_sha256,
        scope=str(scope),
        now=now,
        ends=ends,
        device=device,
    )
    if not added:
        raise InvalidInput("this token is known", fix="make another", subject="token_sha256")
    _forget(transaction, tenant, now)
    transaction.announce()
    return ends


def as_before(
    transaction: Transaction, tenant: str, name: str, scope: Scope | None, seconds: float | None
) -> tuple[Scope, float | None]:
    """Return the scope and lifetime of a replacement token.

    Missing values come from the newest token of that name, so that a replacement never gains
    rights.

    Raises:
        InvalidInput: no such tenant. NotFound: no such token.
    """
    quotas.check_tenant(transaction, tenant)
    row = transaction.row(
        "SELECT scope, ends - created AS seconds FROM credentials "
        "WHERE tenant = :tenant AND name = :name ORDER BY number DESC LIMIT 1",
        tenant=tenant,
        name=name,
    )
    if row is None and name == FIRST:  # every tenant had one; its row is gone
        return scope or Scope.ALL, seconds
    if row is None:
        raise NotFound(
            f"{tenant} has no token named {name!r}",
            fix="leave --replace out, or give a name that `sotto-cloud tokens list` shows",
            subject="name",
        )
    return scope or Scope(row["scope"]), row["seconds"] if seconds is None else seconds


def _device(transaction: Transaction, tenant: str, name: str) -> str:
    """Return the certificate's name that a valid token of that name is bound to.

    A replacement token stays with the same certificate.
    """
    row = transaction.row(
        f"SELECT device FROM credentials WHERE tenant = :tenant AND name = :name AND {VALID} "
        "ORDER BY number DESC LIMIT 1",
        tenant=tenant,
        name=name,
        now=transaction.now(),
    )
    return row["device"] if row is not None else ""


def told(name: str, scope: Scope, ends: float | None) -> str:
    """Return the audit log's description of a token."""
    if ends is None:
        return f"{name}: {scope}, for ever"
    return f"{name}: {scope}, until {when(ends)}"


def check_name_free(transaction: Transaction, tenant: str, name: str, *, replace: bool) -> None:
    """Check that a new token may have this name.

    Raises:
        InvalidInput: no such tenant, a bad name, or a name in use that is not to be replaced.
    """
    check_name(name, "token")
    if name.isdecimal():
        raise InvalidInput(
            "a token's name needs a letter", fix="call it dev-1, for instance", subject="name"
        )
    quotas.check_tenant(transaction, tenant)
    if not replace and _count(transaction, tenant, transaction.now(), name):
        raise InvalidInput(
            f"{tenant} has a token named {name!r}",
            fix="choose another --name, or --replace that one, with `sotto-cloud tokens`",
            subject="name",
        )


def _count(transaction: Transaction, tenant: str, now: float, name: str = "") -> int:
    row = transaction.row(
        f"SELECT count(*) AS n FROM credentials WHERE tenant = :tenant AND {VALID} "
        "AND (name = :name OR :name = '')",
        tenant=tenant,
        now=now,
        name=name,
    )
    assert row is not None
    return int(row["n"])


def _forget(transaction: Transaction, tenant: str, now: float) -> None:
    """Delete all but the newest of the ended tokens."""
    over = f"SELECT number FROM credentials WHERE tenant = :tenant AND NOT ({VALID})"
    transaction.change(
        f"DELETE FROM credentials WHERE number IN ({over} "
        "ORDER BY number DESC LIMIT 1000000 OFFSET :remembered)",
        tenant=tenant,
        now=now,
        remembered=_REMEMBERED,
    )


class Credentials:
    """The tokens in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def new(
        self,
        tenant: str,
        name: str,
        *,
        scope: Scope | None = None,
        seconds: float | None = None,
        replace: bool = False,
        grace: float = 0.0,
    ) -> str:
        """Create a token and return it, this once; see `add`, and `as_before` for ``replace``."""
        token, device = made(), ""
        with self._database.write() as transaction:
            quotas.lock(transaction, tenant)
            if replace:
                scope, seconds = as_before(transaction, tenant, name, scope, seconds)
                device = _device(transaction, tenant, name)
            scope = scope or Scope.ALL
            ends = add(
                transaction,
                tenant,
                name,
                hashed(token),
                scope=scope,
                seconds=seconds,
                replace=replace,
                grace=grace,
                device=device,
            )
            what = "token replaced" if replace else "token made"
            audit_log.record(transaction, what, tenant, told(name, scope, ends))
        return token

    def all(self, tenant: str = "") -> tuple[list[Credential], float]:
        """Return tokens by tenant and age, with the newest ended ones, and the current time.

        Raises:
            InvalidInput: no such tenant.
        """
        with self._database.read() as transaction:
            if tenant:
                quotas.check_tenant(transaction, tenant)
            rows = transaction.rows(
                f"SELECT {_TOLD} FROM credentials "
                "WHERE tenant = :tenant OR :tenant = '' ORDER BY tenant, number",
                tenant=tenant,
            )
            return [_credential(row) for row in rows], transaction.now()

    def newest(self, tenant: str, most: int) -> tuple[list[Credential], int, float]:
        """Return a tenant's ``most`` newest tokens, the number of others, and the current time.

        The newest token comes first.

        Raises:
            InvalidInput: no such tenant.
        """
        with self._database.read() as transaction:
            quotas.check_tenant(transaction, tenant)
            rows = transaction.rows(
                f"SELECT {_TOLD} FROM credentials "
                "WHERE tenant = :tenant ORDER BY number DESC LIMIT :most",
                tenant=tenant,
                most=most,
            )
            there = transaction.row(
                "SELECT count(*) AS n FROM credentials WHERE tenant = :tenant", tenant=tenant
            )
            assert there is not None
            return [_credential(row) for row in rows], there["n"] - len(rows), transaction.now()

    def revoke(self, tenant: str, which: str = "") -> int:
        """Revoke tokens at once; streams opened with them end within seconds.

        Codes of the same name become void too.

        Args:
            which: a name, or the number of one token; "" for all tokens of the tenant.

        Returns:
            How many tokens were valid until now.

        Raises:
            InvalidInput: no such tenant. NotFound: no valid token and no code matches.
        """
        with self._database.write() as transaction:
            quotas.lock(transaction, tenant)
            quotas.check_tenant(transaction, tenant)
            given = {
                "tenant": tenant,
                "which": which,
                "number": int(which) if which.isdecimal() and len(which) < 19 else -1,
                "now": transaction.now(),
            }
            codes = transaction.change(
                "DELETE FROM codes WHERE tenant = :tenant AND (:which = '' OR name = :which "
                "OR name IN (SELECT name FROM credentials WHERE tenant = :tenant "
                f"AND number = :number AND {VALID}))",
                **given,
            )
            changed = transaction.change(
                "UPDATE credentials SET revoked = 1 WHERE tenant = :tenant "
                f"AND {VALID} AND (:which = '' OR name = :which OR number = :number)",
                **given,
            )
            if which and not (changed or codes):
                raise NotFound(
                    f"{tenant} has no such token that is valid",
                    fix=f"`sotto-cloud tokens list {tenant}` lists them",
                    subject="token",
                )
            audit_log.record(transaction, "token revoked", tenant, which or "all")
            _forget(transaction, tenant, transaction.now())
            transaction.announce()
        return changed


def _credential(row: Row) -> Credential:
    return Credential(**{**row, "scope": Scope(row["scope"]), "revoked": bool(row["revoked"])})
