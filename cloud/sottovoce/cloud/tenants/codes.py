"""One-time codes, which a device exchanges for a token.

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
from typing import Final

from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database, Row, Transaction
from sottovoce.cloud.tenants import credentials, quotas
from sottovoce.cloud.tenants.credentials import Scope
from sottovoce.core.errors import InvalidInput, SottovoceError, Unauthenticated

SECONDS: Final = 600.0
LONGEST: Final = 86_400.0
"""The longest lifetime in seconds: a code is short, and may lie around in plain sight."""
GUESSES: Final = 5
"""Wrong guesses after which a code is void."""
MOST: Final = 1000
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
        seconds: float = SECONDS,
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
                many codes, or more than `LONGEST` seconds.
            NotFound: see `credentials.as_before`.
        """
        if seconds > LONGEST:
            raise InvalidInput(
                "a code is valid for a day at most",
                fix="give --valid 1d or less, or a token (`sotto-cloud tokens new`)",
                subject="seconds",
            )
        selector, secret = (_drawn(size) for size in (_SELECTOR, _SECRET))
        with self._database.write() as transaction:
            quotas.lock(transaction, tenant)
            credentials.check_name_free(transaction, tenant, name, replace=replace)
            if replace:
                scope, token_seconds = credentials.as_before(
                    transaction, tenant, name, scope, token_seconds
                )
            scope = scope or Scope.ALL
            now = transaction.now()
            transaction.change(
                "DELETE FROM codes WHERE ends <= :now OR (tenant = :tenant AND name = :name)",
                now=now,
                tenant=tenant,
                name=name,
            )
            held = transaction.row("SELECT count(*) AS n FROM codes")
            if held is None or held["n"] >= MOST:
                raise _too_many()
            added = transaction.change(
                "INSERT INTO codes "
                "(selector, secret_sha256, tenant, name, scope, token_seconds, ends, replaces) "
                "VALUES "
                "(:selector, :hash, :tenant, :name, :scope, :token_seconds, :ends, :replaces) "
                "ON CONFLICT (selector) DO NOTHING",
                selector=selector,
                hash=_hashed(secret),
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
    if not hmac.compare_digest(_hashed(secret), row["secret_sha256"]):
        _count(transaction, selector, row)
        return _refused()
    if row["token_sha256"] is None:
        state = transaction.row("SELECT disabled FROM tenants WHERE name = :name", name=tenant)
        if state is None or state["disabled"]:
            return quotas.disabled()
        scope = Scope(row["scope"])
        ends = credentials.add(
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
        detail = credentials.told(name, scope, ends)
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


def _count(transaction: Transaction, selector: str, row: Row) -> None:
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


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
