"""Limits of tenants: the ones for all, and the ones that differ for a single tenant.

The limits for all are options of the servers and trainers. Each process enforces its own options,
and notes them in the database when it starts, so that commands and the page can show them. A
tenant's own limits are rows, which processes read at each use: a change needs no restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database, Transaction
from sottovoce.core.errors import InvalidInput, PermissionDenied

UNITS: Final = {
    "examples": "examples a job",
    "upload_bytes": "bytes a job",
    "training_seconds": "seconds a job",
    "unfinished_jobs": "jobs",
    "held_bytes": "bytes",
    "past_jobs": "jobs",
}
"""The fields of `ServerLimits` that may differ, each with its unit."""
CHANGEABLE: Final = tuple(UNITS)
OF_TRAINERS: Final = ("training_seconds",)
"""Limits that trainers enforce."""
OF_SERVERS: Final = tuple(name for name in CHANGEABLE if name not in OF_TRAINERS)
"""Limits that servers and fronts enforce."""

_MOST_DIGITS: Final = 20
"""More than any number below 2**63 has."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The value of a limit, and its origin: the tenant, all tenants, or the program's default."""

    value: int
    origin: str


def note(database: Database, limits: ServerLimits, names: Sequence[str]) -> None:
    """Store the named limits, which a process enforces for all tenants.

    The process that started last counts.
    """
    with database.write() as transaction:
        for name in names:
            transaction.change(
                "INSERT INTO common_limits (name, value) VALUES (:name, :value) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                name=name,
                value=getattr(limits, name),
            )


def in_force(database: Database, tenant: str) -> dict[str, InForce]:
    """Return the limits of a tenant by name, in the order of `CHANGEABLE`; see `own`."""
    changed = own(database, tenant)
    with database.read() as transaction:
        rows = transaction.rows("SELECT name, value FROM common_limits")
    noted = {row["name"]: row["value"] for row in rows}
    default = ServerLimits()

    def found(name: str) -> InForce:
        if name in changed:
            return InForce(changed[name], "tenant")
        if name in noted:
            return InForce(noted[name], "all")
        return InForce(getattr(default, name), "default")

    return {name: found(name) for name in CHANGEABLE}


def own(database: Database, tenant: str) -> dict[str, int]:
    """Return the limits changed for a tenant; see `check_tenant`."""
    with database.read() as transaction:
        check_tenant(transaction, tenant)
        rows = transaction.rows(
            "SELECT name, value FROM limits WHERE tenant = :tenant", tenant=tenant
        )
    return {row["name"]: row["value"] for row in rows}


def of(database: Database, tenant: str, common: ServerLimits) -> ServerLimits:
    """Return a tenant's limits: ``common`` with the tenant's `own` changes."""
    return replace(common, **own(database, tenant))


def value_of(text: str) -> int | None:
    """Return a limit from its digits; None from "", which stands for the limit of all tenants.

    Raises:
        InvalidInput: the text is not a whole number.
    """
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise InvalidInput(
            f"a limit cannot be {text[:_MOST_DIGITS]!r}",
            fix="give a whole number, such as 50, or nothing for the limit of all tenants",
            subject="limit",
        )
    return int(text)


def change(database: Database, tenant: str, name: str, value: int | None) -> None:
    """Set one of a tenant's limits; None restores the common limit.

    Raises:
        InvalidInput: unknown tenant or limit, or a value below 1.
    """
    if name not in CHANGEABLE:
        raise InvalidInput(
            f"unknown limit {name!r}", fix=f"use one of: {', '.join(CHANGEABLE)}", subject="limit"
        )
    if value is not None and not 1 <= value < 2**63:
        raise InvalidInput(f"{name} is out of range", fix="give at least 1", subject="limit")
    with database.write() as transaction:
        check_tenant(transaction, tenant)
        audit_log.record(
            transaction, "limit changed", tenant, f"{name}={'' if value is None else value}"
        )
        if value is None:
            transaction.change(
                "DELETE FROM limits WHERE tenant = :tenant AND name = :name",
                tenant=tenant,
                name=name,
            )
        else:
            transaction.change(
                "INSERT INTO limits (tenant, name, value) VALUES (:tenant, :name, :value) "
                "ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value",
                tenant=tenant,
                name=name,
                value=value,
            )


def lock(transaction: Transaction, tenant: str) -> None:
    """Lock everything that counts against the tenant's limits, until the transaction ends.

    Otherwise two transactions could both see room for one more, and exceed the limit.
    """
    transaction.lock("SELECT name FROM tenants WHERE name = :tenant", tenant=tenant)


def check_tenant(transaction: Transaction, tenant: str) -> None:
    """Raise `InvalidInput` unless the tenant exists."""
    if transaction.row("SELECT 1 FROM tenants WHERE name = :tenant", tenant=tenant) is None:
        raise InvalidInput(
            f"no tenant {tenant!r}", fix="add it with `sotto-cloud enroll`", subject="tenant"
        )


def disabled() -> PermissionDenied:
    """Return the error for calls of a disabled tenant."""
    return PermissionDenied(
        "the provider has disabled this tenant",
        fix="ask the provider why; tokens and adapters are as they were",
        subject="tenant",
    )
