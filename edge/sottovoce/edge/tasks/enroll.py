"""A device is let in at a cloud: a code against a token of its own.

The token is made here and lies on the disk before the cloud hears of its hash: whatever is cut off
after that, the same code and the same token finish it. No other cloud and no other code ever gets
that token: who knows it is let in where it was accepted.
"""

from __future__ import annotations

import glob
import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sottovoce.core.errors import InvalidInput, Unauthenticated
from sottovoce.core.system.files import atomic, disk, private_folder, sync_folder
from sottovoce.core.system.leftovers import sweep
from sottovoce.core.system.owner import as_owner_of
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.secret_file import SecretFile
from sottovoce.v1 import enrollment_pb2

__all__ = ["Enrolled", "enroll"]

_CODES_LAST: Final = 86_400.0
"""Seconds, at most."""
_SCOPES: Final = {
    enrollment_pb2.TOKEN_SCOPE_ALL: "all",
    enrollment_pb2.TOKEN_SCOPE_TRAIN: "train",
    enrollment_pb2.TOKEN_SCOPE_PREDICT: "predict",
}


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Who the device is to the cloud; ``ends`` None: never."""

    tenant: str
    name: str
    scope: str
    ends: datetime | None
    devices_port: int
    """Where calls show a certificate; 0: nowhere."""


@contextmanager
def enroll(cloud: Cloud, code: str, token_file: Path) -> Iterator[Enrolled]:
    """Redeems a code, and puts the token where calls will read it when the block ends without an
    exception; after one the same code may be tried again.

    Args:
        token_file: is replaced, mode 0600; root does it as whose folder it lies in.

    Raises:
        Unauthenticated: the code is wrong, used or over.
        Unavailable: the cloud does not answer; the same code may be tried again.
    """
    waiting = token_file.with_name(f"{token_file.name}.{_mark(cloud, code)}.new")
    with as_owner_of(token_file):
        if not token_file.parent.exists():
            private_folder(token_file.parent)
        sweep(token_file.parent, f"{glob.escape(token_file.name)}.*.new")  # of whatever code
        token = _kept(waiting)
    try:
        answer = cloud.redeem_code(code, hashlib.sha256(token.encode()).digest())
    except (InvalidInput, Unauthenticated):
        with as_owner_of(token_file):
            waiting.unlink(missing_ok=True)  # nothing was let in with it
        raise
    yield Enrolled(
        answer.tenant,
        answer.name,
        _SCOPES.get(answer.scope, "unknown"),
        answer.end_time.ToDatetime(UTC) if answer.HasField("end_time") else None,
        answer.devices_port,
    )
    with as_owner_of(token_file), disk(token_file):
        waiting.replace(token_file)
        for other in token_file.parent.glob(f"{glob.escape(token_file.name)}.*.new"):
            with suppress(FileNotFoundError):  # another enrolment has ended meanwhile
                if time.time() - other.stat().st_mtime > _CODES_LAST:
                    other.unlink()  # of a code that led nowhere, and cannot any more
        sync_folder(token_file.parent)


def _mark(cloud: Cloud, code: str) -> str:
    """What tells clouds and codes apart, however a code is typed."""
    typed = "".join(filter(str.isalnum, code)).upper()
    return hashlib.sha256(f"{cloud.address} {typed}".encode()).hexdigest()[:16]


def _kept(file: Path) -> str:
    """A new token, on the disk; or the one that an attempt which was cut off left there."""
    if file.exists():
        return SecretFile(file, "cloud.token_file", "token").read()
    token = secrets.token_urlsafe(32)
    with atomic(file) as out:
        out.write(f"{token}\n".encode("ascii"))
    return token
