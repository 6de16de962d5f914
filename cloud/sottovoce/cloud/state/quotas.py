"""Limits of single tenants, where they differ from everybody's.

Why it is here: one tenant's larger job should not need a larger limit for all, nor a restart; so
what differs is a row in the store, read when it matters.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Final

from sottovoce.cloud.config import Limits
from sottovoce.cloud.state.database import Store
from sottovoce.core.errors import InvalidInput

__all__ = ["CHANGEABLE", "change", "of", "own"]

CHANGEABLE: Final = ("examples", "upload_bytes", "training_seconds", "unfinished_jobs")
"""The fields of `Limits` that may differ."""


def own(store: Store, tenant: str) -> dict[str, int]:
    """What was changed for a tenant.

    Raises:
        InvalidInput: unknown tenant.
    """
    with store.read() as connection:
        _check_tenant(connection, tenant)
        rows = connection.execute(
            "SELECT name, value FROM limits WHERE tenant = ?", (tenant,)
        ).fetchall()
    return {row["name"]: row["value"] for row in rows}


def of(store: Store, tenant: str, common: Limits) -> Limits:
    """A tenant's limits: ``common``, but for what was changed.

    Raises:
        InvalidInput: unknown tenant.
    """
    return replace(common, **own(store, tenant))


def change(store: Store, tenant: str, name: str, value: int | None) -> None:
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
    with store.write() as connection:
        _check_tenant(connection, tenant)
        connection.execute("DELETE FROM limits WHERE tenant = ? AND name = ?", (tenant, name))
        if value is not None:
            connection.execute("INSERT INTO limits VALUES (?, ?, ?)", (tenant, name, value))


def _check_tenant(connection: sqlite3.Connection, tenant: str) -> None:
    if connection.execute("SELECT 1 FROM tenants WHERE name = ?", (tenant,)).fetchone() is None:
        raise InvalidInput(
            f"no tenant {tenant!r}", fix="add it with `sotto-cloud enroll`", subject="tenant"
        )
