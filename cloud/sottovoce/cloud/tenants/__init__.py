"""The tenants, and the authentication of their calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sottovoce.cloud.config import check_name
from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database, Row, when
from sottovoce.cloud.tenants import credentials, quotas
from sottovoce.cloud.tenants.credentials import FIRST, VALID, Scope, hashed, made
from sottovoce.core.errors import InvalidInput, PermissionDenied, Unauthenticated
from sottovoce.core.rpc.channels import BEARER, TENANT_KEY, TOKEN_KEY

_LET_IN = f"FROM credentials WHERE tenant = tenants.name AND {VALID}"
_ASK = "ask the provider for another (`sotto-cloud tokens new TENANT`)"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant as the provider sees it.

    Times are in seconds since 1970. Only valid tokens and remembered jobs are counted.
    """

    name: str
    created: float
    disabled: bool
    tokens: int
    next_end: float | None
    jobs: int


class Tenants:
    """The tenants in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def enroll(self, name: str) -> str:
        """Add a tenant and return its first token, which is shown this once.

        Raises:
            InvalidInput: a bad name, or a name that is taken.
        """
        check_name(name, "tenant")
        token = made()
        with self._database.write() as transaction:
            added = transaction.change(
                "INSERT INTO tenants (name, created) VALUES (:name, :now) "
                "ON CONFLICT (name) DO NOTHING",
                name=name,
                now=transaction.now(),
            )
            if not added:
                raise InvalidInput(
                    f"tenant {name!r} exists",
                    fix="choose another name, give it one more token with `sotto-cloud tokens new`"
                    ", or renew its first with `sotto-cloud enroll --renew`",
                    subject="tenant",
                )
            credentials.add(transaction, name, FIRST, hashed(token))
            audit_log.record(transaction, "tenant enrolled", name)
        return token

    def renew(self, name: str) -> str:
        """Return a new first token for a tenant; the old one stops working at once."""
        return credentials.Credentials(self._database).new(name, FIRST, replace=True)

    def all(self) -> list[Tenant]:
        return self.page(most=2**62)

    def page(self, *, begins: str = "", after: str = "", most: int) -> list[Tenant]:
        """Return the first ``most`` tenants after ``after`` whose names start with ``begins``."""
        with self._database.read() as transaction:
            rows = transaction.rows(
                f"SELECT name, created, disabled, (SELECT count(*) {_LET_IN}) AS tokens, "
                f"(SELECT min(ends) {_LET_IN}) AS next_end, (SELECT count(*) FROM jobs WHERE "
                "tenant = tenants.name AND deleted = 0) AS jobs FROM tenants WHERE name > :after "
                "AND substr(name, 1, :length) = :begins ORDER BY name LIMIT :most",
                now=transaction.now(),
                after=after,
                length=len(begins),
                begins=begins,
                most=most,
            )
        return [Tenant(**{**row, "disabled": bool(row["disabled"])}) for row in rows]

    def disable(self, name: str, *, disabled: bool = True) -> None:
        """Disable a tenant, or enable it again with its tokens and adapters unchanged.

        Raises:
            InvalidInput: no such tenant.
        """
        with self._database.write() as transaction:
            quotas.check_tenant(transaction, name)
            transaction.change(
                "UPDATE tenants SET disabled = :disabled WHERE name = :name",
                disabled=int(disabled),
                name=name,
            )
            audit_log.record(transaction, f"tenant {'disabled' if disabled else 'enabled'}", name)
            transaction.announce()

    def authenticate(self, metadata: Iterable[tuple[str, str | bytes]], shown: str = "") -> str:
        """Return the tenant of a call, for a token of any scope.

        The first certificate that comes with a token binds the token to the certificate's name.
        From then on the token is worthless without a certificate of that name, in every process.

        Args:
            shown: the name of the certificate that the connection shows; "" for none.

        Raises:
            Unauthenticated: metadata missing, unknown tenant or wrong token; the last two give the
                same error, so that names cannot be probed. Also a revoked or expired token, or a
                token that is bound to another name.
            PermissionDenied: the tenant is disabled.
        """
        known = self._known(metadata)
        if shown and not known["device"]:
            known = self._bound(metadata, known, shown)
        if known["device"] != shown:
            raise Unauthenticated(
                "this token belongs to another certificate"
                if shown
                else "this token is valid only with its device's certificate, and none is shown",
                fix="on the device, set cloud.certificate and cloud.certificate_key to its pair; "
                "for a certificate of another name, ask the provider for a code (`sotto-cloud "
                "tokens code TENANT --name NAME --replace`), and run `sotto enroll CODE`",
                subject="cloud.certificate",
            )
        return str(known["tenant"])

    def admit(
        self, metadata: Iterable[tuple[str, str | bytes]], scope: Scope, *others: Scope
    ) -> str:
        """Return the tenant of a call that needs a token of one of the given scopes.

        Raises:
            Unauthenticated, PermissionDenied: see `authenticate`.
            PermissionDenied: the token has another scope.
        """
        known = self._known(metadata)
        if known["scope"] not in (Scope.ALL, scope, *others):
            raise PermissionDenied(
                f"this token's scope is {known['scope']!r}",
                fix="use one for this, or for all: ask the provider (`sotto-cloud tokens new "
                f"TENANT --scope {scope}`)",
                subject="scope",
            )
        return str(known["tenant"])

    def _bound(self, metadata: Iterable[tuple[str, str | bytes]], known: Row, shown: str) -> Row:
        with self._database.write() as transaction:
            bound = transaction.change(
                "UPDATE credentials SET device = :device WHERE number = :number AND device = ''",
                number=known["number"],
                device=shown,
            )
            if bound:
                audit_log.record(
                    transaction,
                    "device bound",
                    known["tenant"],
                    f"{known['name']}: {shown}",
                    who=audit_log.A_DEVICE,
                )
                transaction.announce()
        return {**known, "device": shown} if bound else self._known(metadata)

    def _known(self, metadata: Iterable[tuple[str, str | bytes]]) -> Row:
        found = {key: value for key, value in metadata if isinstance(value, str)}
        name, bearer = found.get(TENANT_KEY, ""), found.get(TOKEN_KEY, "")
        if not name or not bearer.startswith(BEARER):
            raise Unauthenticated(
                "the call names no tenant or carries no token",
                fix=f"send the metadata {TENANT_KEY!r} and {TOKEN_KEY!r} ('Bearer TOKEN'); on the "
                "device set cloud.tenant and cloud.token_file",
            )
        with self._database.read() as transaction:
            row = transaction.row(
                "SELECT number, tenant, credentials.name, scope, ends, revoked, device, disabled "
                "FROM credentials "
                "JOIN tenants ON tenants.name = credentials.tenant "
                "WHERE token_sha256 = :hash AND tenant = :tenant",
                hash=hashed(bearer.removeprefix(BEARER).strip()),
                tenant=name,
            )
            if row is None:
                raise Unauthenticated(
                    "unknown tenant or wrong token",
                    fix="ask the provider for a token (`sotto-cloud tokens new TENANT`)",
                )
            # A caller with the exact token may learn its state.
            _check(row, transaction.now() if row["ends"] is not None else 0.0)
        return row


def _check(row: Row, now: float) -> None:
    if row["revoked"]:
        raise Unauthenticated("the provider has revoked this token", fix=_ASK, subject="token")
    if row["ends"] is not None and row["ends"] <= now:
        text = f"this token ended at {when(row['ends'])}"
        raise Unauthenticated(text, fix=_ASK, subject="token")
    if row["disabled"]:
        raise quotas.disabled()
