"""Limits of single tenants, where they differ from everybody's.

Why it is here: one tenant's larger job should not need a larger limit for all, nor a restart; so
what differs is a row in the database, read when it matters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sottovoce.cloud.config import Limits
from sottovoce.cloud.state import audit_log
from sottovoce.cloud.state.database import Database, Transaction
from sottovoce.core.errors import InvalidInput, PermissionDenied

__all__ = ["CHANGEABLE", "change", "check_tenant", "disabled", "lock", "of", "own"]

CHANGEABLE: Final = (
    "examples",
    "upload_bytes",
    "training_seconds",
    "unfinished_jobs",
    "held_bytes",
    "past_jobs",
)
"""The fields of `Limits` that may differ."""


def own(database: Database, tenant: str) -> dict[str, int]:
    """What was changed for a tenant.

    Raises:
        InvalidInput: unknown tenant.
    """
    with database.read() as transaction:
        check_tenant(transaction, tenant)
        rows = transaction.rows(
            "SELECT name, value FROM limits WHERE tenant = :tenant", tenant=tenant
        )
    return {row["name"]: row["value"] for row in rows}


def of(database: Database, tenant: str, common: Limits) -> Limits:
    """A tenant's limits: ``common``, but for what was changed.

    Raises:
        InvalidInput: unknown tenant.
    """
    return replace(common, **own(database, tenant))


def change(database: Database, tenant: str, name: str, value: int | None) -> None:
    """Sets one of a tenant's limits, or with None makes it everybody's again.

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
    """Has the rest of the transaction to itself what counts against the tenant's limits: of two
    that both see room for one more, the second would be one too many."""
    transaction.lock("SELECT name FROM tenants WHERE name = :tenant", tenant=tenant)


def check_tenant(transaction: Transaction, tenant: str) -> None:
    """Sees to it that there is such a tenant.

    Raises:
        InvalidInput: there is none.
    """
    if transaction.row("SELECT 1 FROM tenants WHERE name = :tenant", tenant=tenant) is None:
        raise InvalidInput(
            f"no tenant {tenant!r}", fix="add it with `sotto-cloud enroll`", subject="tenant"
        )


def disabled() -> PermissionDenied:
    """What whoever comes from a tenant is told whom the provider has shut out."""
    return PermissionDenied(
        "the provider has disabled this tenant",
        fix="ask the provider why; tokens and adapters are as they were",
        subject="tenant",
    )
