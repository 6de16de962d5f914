"""The audit log of the provider's acts, written in each act's transaction.

Months later, another person may ask which operator let a device in or shut it out. The log holds no
tenant's text, no token and no code. New entries displace the oldest.
"""

from __future__ import annotations

import logging
import os
import pwd
import socket
from dataclasses import dataclass
from typing import Final

from sottovoce.cloud.store.database import Database, Transaction
from sottovoce.core.errors import Unavailable

KEPT: Final = 10_000
"""The number of entries kept; beyond it, the oldest are deleted."""
A_DEVICE: Final = "a device"
"""The logged actor when a code is redeemed; the cloud knows no more."""
_log = logging.getLogger(__name__)
_LONGEST: Final = 64


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One entry; ``done`` in seconds since 1970 by the database's clock."""

    number: int
    done: float
    who: str
    what: str
    tenant: str
    detail: str


def operator() -> str:
    """Return this process's user and machine, and the caller of sudo, if any."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without an entry
        name = str(os.getuid())
    caller = "".join(c for c in os.environ.get("SUDO_USER", "") if c.isprintable())[:_LONGEST]
    return f"{name}@{socket.gethostname()}" + (f", by sudo of {caller}" if caller else "")


def record(
    transaction: Transaction, what: str, tenant: str, detail: str = "", *, who: str = ""
) -> None:
    """Record an act in the transaction that performs it; by default this process's operator's."""
    transaction.change(
        "INSERT INTO acts (done, who, what, tenant, detail) "
        "VALUES (:done, :who, :what, :tenant, :detail)",
        done=transaction.now(),
        who=who or operator(),
        what=what,
        tenant=tenant,
        detail=detail,
    )
    transaction.change(
        "DELETE FROM acts WHERE number <= (SELECT max(number) FROM acts) - :kept", kept=KEPT
    )


def note(database: Database, what: str, tenant: str, detail: str = "") -> None:
    """Record an act in a separate transaction.

    Used for acts that free space on a full disk: a failure to record them does not undo them.
    """
    try:
        with database.write() as transaction:
            record(transaction, what, tenant, detail)
    except Unavailable:
        _log.error("not noted in the audit log: %s", what)


def recorded(database: Database, *, most: int, tenant: str = "") -> list[AuditEvent]:
    """Return the newest ``most`` entries, newest first, optionally of one tenant."""
    with database.read() as transaction:
        rows = transaction.rows(
            "SELECT number, done, who, what, tenant, detail FROM acts "
            "WHERE tenant = :tenant OR :tenant = '' ORDER BY number DESC LIMIT :most",
            tenant=tenant,
            most=most,
        )
    return [AuditEvent(**row) for row in rows]
