"""Tokens of tenants, one for each device, and the one-time codes that a device exchanges for one.

A token is 32 random bytes, never a password. So a plain SHA-256 is enough to make a stolen database
useless. Lookup by this hash also leaks nothing through its timing.

People type a code, so it is short. It is therefore valid for minutes, for one token, and for a few
wrong guesses. Its first letters select the code, so that wrong guesses count against it. The rest
is the secret, 40 bits. The device draws the token and sends only its hash. So the device can repeat
a call after a lost response.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sottovoce.cloud.config import check_name
from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database, Row, Transaction, when
from sottovoce.cloud.tenants import quotas
from sottovoce.core.errors import InvalidInput, NotFound, SottovoceError, Unauthenticated

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
        return not self.revoked and (self.ends is None or self.ends > now)


def made() -> str:
    return secrets.token_urlsafe(32)


def hashed(token: str) -> bytes:
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


CODE_SECONDS: Final = 600.0
LONGEST_CODE: Final = 86_400.0
"""The longest lifetime in seconds: a code is short, and may lie around in plain sight."""
GUESSES: Final = 5
"""Wrong guesses after which a code is void."""
MOST_CODES: Final = 1000
"""Valid codes of all tenants together: at this number, a guess succeeds once in 2^50."""
_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's alphabet, without letters that are easily confused."""
_READ_AS: Final = str.maketrans({"O": "0", "I": "1", "L": "1", "-": None, " ": None})
_SELECTOR, _SECRET = 4, 8
_TYPED: Final = 64


@dataclass(frozen=True, slots=True)
class Redeemed:
    """A redeemed code's tenant and device; ``ends`` of the token in seconds since 1970, None:
    never.
    """

    tenant: str
    name: str
    scope: Scope
    ends: float | None


class Codes:
    """The codes in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def new(
        self,
        tenant: str,
        name: str,
        *,
        scope: Scope | None = None,
        token_seconds: float | None = None,
        seconds: float = CODE_SECONDS,
        replace: bool = False,
    ) -> str:
        """Return a code for one device: three groups of four letters, with dashes between.

        Earlier codes of that name become void.

        Args:
            token_seconds: the token's lifetime; None for ever.
            seconds: the code's lifetime.
            replace: a token of this name ends when the code is redeemed; see
                `credentials.as_before`.

        Raises:
            InvalidInput: no such tenant, a bad name, a name in use that is not to be replaced, too
                many codes, or more than `LONGEST_CODE` seconds.
            NotFound: see `credentials.as_before`.
        """
        if seconds > LONGEST_CODE:
            raise InvalidInput(
                "a code is valid for a day at most",
                fix="give --valid 1d or less, or a token (`sotto-cloud tokens new`)",
                subject="seconds",
            )
        selector, secret = (_drawn(size) for size in (_SELECTOR, _SECRET))
        with self._database.write() as transaction:
            quotas.lock(transaction, tenant)
            check_name_free(transaction, tenant, name, replace=replace)
            if replace:
                scope, token_seconds = as_before(transaction, tenant, name, scope, token_seconds)
            scope = scope or Scope.ALL
            now = transaction.now()
            transaction.change(
                "DELETE FROM codes WHERE ends <= :now OR (tenant = :tenant AND name = :name)",
                now=now,
                tenant=tenant,
                name=name,
            )
            held = transaction.row("SELECT count(*) AS n FROM codes")
            if held is None or held["n"] >= MOST_CODES:
                raise _too_many()
            added = transaction.change(
                "INSERT INTO codes "
                "(selector, secret_sha256, tenant, name, scope, token_seconds, ends, replaces) "
                "VALUES "
                "(:selector, :hash, :tenant, :name, :scope, :token_seconds, :ends, :replaces) "
                "ON CONFLICT (selector) DO NOTHING",
                selector=selector,
                hash=_hashed_secret(secret),
                tenant=tenant,
                name=name,
                scope=str(scope),
                token_seconds=token_seconds,
                ends=now + seconds,
                replaces=int(replace),
            )
            if not added:  # the prefix is taken: about once in a thousand, with all codes in use
                raise _too_many()
            audit_log.record(transaction, "code made", tenant, f"{name}: {scope}")
        return "-".join((selector, secret[:4], secret[4:]))

    def redeem(self, code: str, token_sha256: bytes, shown: str = "") -> Redeemed:
        """Redeem a code for the token with that hash; repeating the call changes nothing.

        Args:
            shown: the name of the certificate that the device shows, if any; the token is then
                valid only with it.

        Raises:
            InvalidInput: not a hash of 32 bytes, or the hash of a known token; or the name has
                received a token meanwhile, which this code was not made to replace.
            Unauthenticated: a code that is wrong, used or expired.
            PermissionDenied: the tenant is disabled.
        """
        if len(token_sha256) != hashlib.sha256().digest_size:
            raise InvalidInput(
                "token_sha256 is no SHA-256", fix="send 32 bytes", subject="token_sha256"
            )
        letters = code.upper().translate(_READ_AS) if len(code) <= _TYPED else ""
        selector, secret = letters[:_SELECTOR], letters[_SELECTOR:]
        with self._database.read() as transaction:  # most guesses end here, without a lock
            if _found(transaction, selector) is None:
                raise _refused()
        with self._database.write() as transaction:
            done = _redeemed(transaction, selector, secret, token_sha256, shown)
        if isinstance(done, SottovoceError):  # raised only after the guess is counted
            raise done
        return done


def _redeemed(
    transaction: Transaction, selector: str, secret: str, token_sha256: bytes, shown: str
) -> Redeemed | SottovoceError:
    row = _found(transaction, selector)
    if row is None:
        return _refused()
    quotas.lock(transaction, row["tenant"])  # lock order: the tenant before its rows
    row = _found(transaction, selector, lock=True)
    if row is None:
        return _refused()
    tenant, name = row["tenant"], row["name"]
    if not hmac.compare_digest(_hashed_secret(secret), row["secret_sha256"]):
        _count_codes(transaction, selector, row)
        return _refused()
    if row["token_sha256"] is None:
        state = transaction.row("SELECT disabled FROM tenants WHERE name = :name", name=tenant)
        if state is None or state["disabled"]:
            return quotas.disabled()
        scope = Scope(row["scope"])
        ends = add(
            transaction,
            tenant,
            name,
            token_sha256,
            scope=scope,
            seconds=row["token_seconds"],
            replace=bool(row["replaces"]),
            device=shown,
        )
        transaction.change(
            "UPDATE codes SET token_sha256 = :hash WHERE selector = :selector",
            hash=token_sha256,
            selector=selector,
        )
        detail = told(name, scope, ends)
        audit_log.record(transaction, "code redeemed", tenant, detail, who=audit_log.A_DEVICE)
    elif row["token_sha256"] != token_sha256:
        return _refused()
    made = transaction.row(
        "SELECT ends FROM credentials WHERE token_sha256 = :hash", hash=token_sha256
    )
    return Redeemed(tenant, name, Scope(row["scope"]), made["ends"]) if made else _refused()


def _found(transaction: Transaction, selector: str, *, lock: bool = False) -> Row | None:
    ask = transaction.lock if lock else transaction.row
    return ask(
        "SELECT * FROM codes WHERE selector = :selector AND ends > :now",
        selector=selector,
        now=transaction.now(),
    )


def _count_codes(transaction: Transaction, selector: str, row: Row) -> None:
    """Count a wrong guess at a code."""
    if row["wrong"] + 1 < GUESSES:
        transaction.change(
            "UPDATE codes SET wrong = wrong + 1 WHERE selector = :selector", selector=selector
        )
        return
    transaction.change("DELETE FROM codes WHERE selector = :selector", selector=selector)
    audit_log.record(
        transaction, "code guessed at", row["tenant"], row["name"], who=audit_log.A_DEVICE
    )


def _refused() -> Unauthenticated:
    return Unauthenticated(
        "this code is wrong, used or over",
        fix="check its letters, or ask the provider for another (`sotto-cloud tokens code TENANT`)",
        subject="code",
    )


def _too_many() -> InvalidInput:
    return InvalidInput("there are too many codes", fix="try again in some minutes", subject="code")


def _drawn(letters: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(letters))


def _hashed_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
