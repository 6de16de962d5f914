"""Tokens of tenants: one for each device, by name, with what it may do and how long.

A token is 32 random bytes, never a password a person chose, so a plain SHA-256 is enough to keep a
stolen database from being a set of keys; and a row found by such a hash tells who guesses nothing
by the time it takes.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sottovoce.cloud.config import check_name
from sottovoce.cloud.state import audit_log, quotas
from sottovoce.cloud.state.database import Database, Row, Transaction, when
from sottovoce.core.errors import InvalidInput, NotFound

__all__ = ["FIRST", "MOST", "VALID", "Credential", "Credentials", "Scope", "add", "as_before"]
__all__ += ["check_name_free", "hashed", "made", "told"]

FIRST: Final = "first"
"""The name of the token that a tenant is enrolled with."""
MOST: Final = 10_000
"""Valid tokens of one tenant."""
_REMEMBERED: Final = 100
"""Tokens of one tenant that are over, so that who still has one is told so."""
VALID: Final = "revoked = 0 AND (ends IS NULL OR ends > :now)"
"""Of a row of ``credentials``."""
_TOLD: Final = "number, tenant, name, scope, created, ends, revoked"


class Scope(StrEnum):
    """What a token is for."""

    ALL = "all"
    TRAIN = "train"
    """Customisation jobs."""
    PREDICT = "predict"
    """Questions: predictions, embeddings, texts."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A token, without the token. Times in seconds since 1970; ``ends`` None: never."""

    number: int
    tenant: str
    name: str
    scope: Scope
    created: float
    ends: float | None
    revoked: bool

    def valid_at(self, now: float) -> bool:
        """Whether it opens anything then."""
        return not self.revoked and (self.ends is None or self.ends > now)


def made() -> str:
    """A new token."""
    return secrets.token_urlsafe(32)


def hashed(token: str) -> bytes:
    """What is kept of a token."""
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
    """Lets in whoever has the token of that hash.

    Args:
        name: of the device.
        seconds: from now on; None for ever.
        replace: tokens of this name end, ``grace`` seconds from now.
        device: whose key it belongs to; "" for the first that asks, see `Tenants.bind`.

    Returns:
        When it ends, in seconds since 1970; None: never.

    Raises:
        InvalidInput: see `check_name_free`; more tokens than there may be, or this one again.
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
    """Scope and lifetime of what takes a token's place: what is left out is as the newest token of
    that name has it, so that a device which gets another may do no more than before.

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
    if row is None and name == FIRST:  # every tenant had it: it was over, and is forgotten
        return scope or Scope.ALL, seconds
    if row is None:
        raise NotFound(
            f"{tenant} has no token named {name!r}",
            fix="leave --replace out, or give a name that `sotto-cloud tokens list` shows",
            subject="name",
        )
    return scope or Scope(row["scope"]), row["seconds"] if seconds is None else seconds


def _device(transaction: Transaction, tenant: str, name: str) -> str:
    """Whose key a valid token of that name belongs to: it is the same device that gets another."""
    row = transaction.row(
        f"SELECT device FROM credentials WHERE tenant = :tenant AND name = :name AND {VALID} "
        "ORDER BY number DESC LIMIT 1",
        tenant=tenant,
        name=name,
        now=transaction.now(),
    )
    return row["device"] if row is not None else ""


def told(name: str, scope: Scope, ends: float | None) -> str:
    """What the audit log has of a token."""
    if ends is None:
        return f"{name}: {scope}, for ever"
    return f"{name}: {scope}, until {when(ends)}"


def check_name_free(transaction: Transaction, tenant: str, name: str, *, replace: bool) -> None:
    """Sees to it that a token may be called that.

    Raises:
        InvalidInput: no such tenant, a bad name, or one that is in use and not to be replaced.
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
    """All but the newest of those that are over."""
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
        """A token, which is shown this once; see `add`, and `as_before` for ``replace``."""
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
        """Tokens by tenant and age, also of the newest that are over, and what time it is.

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
        """The ``most`` newest of a tenant's tokens, newest first; how many more there are, and what
        time it is.

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
        """Shuts out tokens at once, and ends what was opened with them within seconds; codes of
        the same name, too, let nobody in any more.

        Args:
            which: a name, or the number of one token; "" for all of the tenant's.

        Returns:
            How many tokens were valid until now.

        Raises:
            InvalidInput: no such tenant. NotFound: no such token that is valid, and no such code.
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
