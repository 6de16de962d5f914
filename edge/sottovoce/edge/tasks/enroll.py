"""Enrol a device at a cloud: exchange a code for a token that the device makes.

The token is on disk before the cloud receives its hash. After an interruption, the same code and
the same token complete the enrolment. The token is never sent to another cloud or used with another
code, because the token grants access where it was accepted.
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
from sottovoce.core.platform.files import (
    as_owner_of,
    atomic,
    disk,
    private_folder,
    sweep,
    sync_folder,
)
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.credentials import SecretFile
from sottovoce.v1 import enrollment_pb2

__all__ = ["Enrolled", "enroll"]

_CODES_LAST: Final = 86_400.0
"""Longest lifetime of a code, in seconds."""
_SCOPES: Final = {
    enrollment_pb2.TOKEN_SCOPE_ALL: "all",
    enrollment_pb2.TOKEN_SCOPE_TRAIN: "train",
    enrollment_pb2.TOKEN_SCOPE_PREDICT: "predict",
}


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The device's identity at the cloud; ``ends`` None means never."""

    tenant: str
    name: str
    scope: str
    ends: datetime | None


@contextmanager
def enroll(cloud: Cloud, code: str, token_file: Path) -> Iterator[Enrolled]:
    """Redeem a code and store the token for later calls.

    The token takes effect when the block ends without an exception. After an exception the same
    code may be tried again.

    Args:
        token_file: is replaced, mode 0600; root writes it as the owner of its folder.

    Raises:
        Unauthenticated: the code is wrong, used or expired.
        Unavailable: the cloud does not answer; the same code may be tried again.
    """
    waiting = token_file.with_name(f"{token_file.name}.{_mark(cloud, code)}.new")
    with as_owner_of(token_file):
        if not token_file.parent.exists():
            private_folder(token_file.parent)
        sweep(token_file.parent, f"{glob.escape(token_file.name)}.*.new")  # of any code
        token = _kept(waiting)
    try:
        answer = cloud.redeem_code(code, hashlib.sha256(token.encode()).digest())
    except (InvalidInput, Unauthenticated):
        with as_owner_of(token_file):
            waiting.unlink(missing_ok=True)  # the token granted no access
        raise
    yield Enrolled(
        answer.tenant,
        answer.name,
        _SCOPES.get(answer.scope, "unknown"),
        answer.end_time.ToDatetime(UTC) if answer.HasField("end_time") else None,
    )
    with as_owner_of(token_file), disk(token_file):
        waiting.replace(token_file)
        for other in token_file.parent.glob(f"{glob.escape(token_file.name)}.*.new"):
            with suppress(FileNotFoundError):  # another enrolment has ended meanwhile
                if time.time() - other.stat().st_mtime > _CODES_LAST:
                    other.unlink()  # of a code that failed and cannot succeed any more
        sync_folder(token_file.parent)


def _mark(cloud: Cloud, code: str) -> str:
    """Return a mark that identifies a cloud and a code, in any spelling of the code."""
    typed = "".join(filter(str.isalnum, code)).upper()
    return hashlib.sha256(f"{cloud.address} {typed}".encode()).hexdigest()[:16]


def _kept(file: Path) -> str:
    """Return a new token, already on disk, or that of an interrupted attempt."""
    if file.exists():
        return SecretFile(file, "cloud.token_file", "token").read()
    token = secrets.token_urlsafe(32)
    with atomic(file) as out:
        out.write(f"{token}\n".encode("ascii"))
    return token
