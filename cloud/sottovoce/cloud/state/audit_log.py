"""What the provider's people did, and when: written with the act itself, or neither is.

Why it is here: who let a device in, and who shut one out, is asked months later, by someone else.
No text of a tenant's is in it, no token and no code; the oldest entries give way to new ones.
"""

from __future__ import annotations

import logging
import os
import pwd
import socket
from dataclasses import dataclass
from typing import Final

from sottovoce.cloud.state.database import Database, Transaction
from sottovoce.core.errors import Unavailable

__all__ = ["A_DEVICE", "KEPT", "Act", "note", "operator", "record", "recorded"]

KEPT: Final = 10_000
"""Acts; with more, the oldest go."""
A_DEVICE: Final = "a device"
"""Who redeems a code, as far as the cloud knows."""
_log = logging.getLogger(__name__)
_LONGEST: Final = 64


@dataclass(frozen=True, slots=True)
class Act:
    """One of them; ``done`` in seconds since 1970 by the database's clock."""

    number: int
    done: float
    who: str
    what: str
    tenant: str
    detail: str


def operator() -> str:
    """The user of this process and the machine, and who called sudo, if anybody did."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without an entry
        name = str(os.getuid())
    caller = "".join(c for c in os.environ.get("SUDO_USER", "") if c.isprintable())[:_LONGEST]
    return f"{name}@{socket.gethostname()}" + (f", by sudo of {caller}" if caller else "")


def record(
    transaction: Transaction, what: str, tenant: str, detail: str = "", *, who: str = ""
) -> None:
    """Notes an act with the transaction that does it.

    Args:
        what: in two or three words, as ``token revoked``.
        who: the operator of this process if left out.
    """
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
    """Notes an act that has a transaction of its own, such as one that makes room on a full disk:
    that there was none for the note does not undo it."""
    try:
        with database.write() as transaction:
            record(transaction, what, tenant, detail)
    except Unavailable:
        _log.error("not noted in the audit log: %s", what)


def recorded(database: Database, *, most: int, tenant: str = "") -> list[Act]:
    """The newest ``most`` acts, newest first; of one tenant, if one is named."""
    with database.read() as transaction:
        rows = transaction.rows(
            "SELECT number, done, who, what, tenant, detail FROM acts "
            "WHERE tenant = :tenant OR :tenant = '' ORDER BY number DESC LIMIT :most",
            tenant=tenant,
            most=most,
        )
    return [Act(**row) for row in rows]
