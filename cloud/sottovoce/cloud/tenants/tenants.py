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

__all__ = ["Tenant", "Tenants"]

_LET_IN = f"FROM credentials WHERE tenant = tenants.name AND {VALID}"
_SHOWN = 16
"""Digits of a key's hash, in the audit log."""
_ASK = "ask the provider for another (`sotto-cloud tokens new TENANT`)"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant as the provider sees it.

    ``created`` is in seconds since 1970. The record also counts valid tokens and remembered jobs,
    and holds the time when the next token ends (None: none ends).
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
        """Return a new first token for a tenant; the old one stops working at once.

        Raises:
            InvalidInput: no such tenant.
        """
        return credentials.Credentials(self._database).new(name, FIRST, replace=True)

    def all(self) -> list[Tenant]:
        """Return every tenant, by name."""
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

    def require_certificates(self, *, required: bool) -> None:
        """Require device certificates, or accept tokens alone; holds for all processes.

        The change applies from the next call on.
        """
        with self._database.write() as transaction:
            changed = transaction.change(
                "UPDATE certificates SET required = :required WHERE required <> :required",
                required=int(required),
            )
            if changed:
                what = "certificates required" if required else "certificates optional"
                audit_log.record(transaction, what, "")
                transaction.announce()

    def certificates_required(self) -> bool:
        """Return whether every call needs a certificate."""
        with self._database.read() as transaction:
            row = transaction.row("SELECT required FROM certificates")
        return row is not None and bool(row["required"])

    def authenticate(
        self, metadata: Iterable[tuple[str, str | bytes]], shown: str | None = None
    ) -> str:
        """Return the tenant of a call, for a token of any scope.

        Args:
            shown: the device whose certificate the connection shows, "" for none; None skips this
                check.

        Raises:
            Unauthenticated: metadata missing, unknown tenant or wrong token; the last two give the
                same error, so that names cannot be probed. Also a revoked or expired token, a token
                bound to another device or to none, or a missing certificate where one is required.
            PermissionDenied: the tenant is disabled.
        """
        known = self._known(metadata)
        if shown:
            _check_device(known, shown, Unauthenticated)
        elif shown is not None and known["required"]:
            raise Unauthenticated(
                "the provider lets a device in by its certificate alone, and none is shown here",
                fix="set cloud.devices_port, which the provider knows, and go on with the same "
                "token: the device gets a certificate by itself",
                subject="devices_port",
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

    def bind(self, metadata: Iterable[tuple[str, str | bytes]], device: str) -> None:
        """Bind a call's token to a device's key, for good, unless it is bound already.

        Raises:
            Unauthenticated, PermissionDenied: see `authenticate`.
            PermissionDenied: it is bound to another key.
        """
        known = self._known(metadata)
        if not known["device"]:
            with self._database.write() as transaction:
                bound = transaction.change(
                    "UPDATE credentials SET device = :device WHERE number = :number "
                    "AND device = ''",
                    number=known["number"],
                    device=device,
                )
                if bound:  # renewals are not logged: they would displace people's acts
                    detail = f"{known['name']}: key {device[:_SHOWN]}"
                    audit_log.record(
                        transaction, "device bound", known["tenant"], detail, who=audit_log.A_DEVICE
                    )
            known = {**known, "device": device} if bound else self._known(metadata)
        _check_device(known, device, PermissionDenied)

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
                "SELECT number, tenant, credentials.name, scope, ends, revoked, device, disabled, "
                "(SELECT required FROM certificates) AS required FROM credentials "
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


def _check_device(known: Row, device: str, kind: type[Unauthenticated]) -> None:
    if known["device"] != device:
        raise kind(
            "this token does not belong to this device's key",
            fix="ask the provider for a code (`sotto-cloud tokens code TENANT --name NAME "
            "--replace`), and run `sotto enroll CODE`; each device needs a token of its own",
            subject="token",
        )


def _check(row: Row, now: float) -> None:
    if row["revoked"]:
        raise Unauthenticated("the provider has revoked this token", fix=_ASK, subject="token")
    if row["ends"] is not None and row["ends"] <= now:
        text = f"this token ended at {when(row['ends'])}"
        raise Unauthenticated(text, fix=_ASK, subject="token")
    if row["disabled"]:
        raise quotas.disabled()
