"""Send adapters to devices in chunks, for permitted tenants."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Any, Final

from sottovoce.cloud.config import EVERY_TENANT, check_name
from sottovoce.cloud.models.local_adapter import to_local
from sottovoce.cloud.server.admission import Admission
from sottovoce.cloud.state.adapters import AdapterFiles, with_files
from sottovoce.cloud.state.database import Database
from sottovoce.core.errors import NotReady, OutOfRange
from sottovoce.core.local.adapter import LocalAdapter
from sottovoce.core.rpc.limits import LARGEST_ADAPTER
from sottovoce.v1 import training_pb2 as wire

__all__ = ["CALLS", "CHUNK", "Downloads", "stays_here"]

CHUNK: Final = 256 * 1024
CALLS, CALLS_PER_TENANT = 16, 4
"""Open calls at once; each holds one adapter in memory."""


class Downloads:
    """Streams tenants' adapters.

    Args:
        database: locates them.
        encoder: the backbone's text encoder; only its shapes are used.
        allowed: tenants that may download adapters, or `EVERY_TENANT`.
    """

    def __init__(self, database: Database, encoder: Any, allowed: Collection[str]) -> None:
        self._database = database
        self._encoder = encoder
        self._allowed = frozenset(allowed)
        self._admission = Admission(calls=CALLS, per_tenant=CALLS_PER_TENANT)

    def stream(
        self, tenant: str, request: wire.GetAdapterRequest
    ) -> Iterator[wire.GetAdapterResponse]:
        """Yield the file's description, then its bytes from the caller's offset on.

        Raises:
            NotReady: this tenant may not download adapters, or devices cannot run this one.
                NotFound: no adapter of that name. OutOfRange: an offset past the end. InvalidInput:
                no name.
        """
        check_name(request.adapter, "adapter")
        if not self._allowed & {tenant, EVERY_TENANT}:
            raise stays_here()
        with self._admission.admitted(tenant):
            adapter = with_files(
                self._database,
                tenant,
                request.adapter,
                self._read,
            )
            data = adapter.to_bytes()
            if len(data) > LARGEST_ADAPTER:
                raise NotReady(
                    f"this adapter has {len(data)} bytes, and devices take {LARGEST_ADAPTER}",
                    fix="have the cloud answer with --where cloud, or customise with a lower rank "
                    "or fewer virtual tokens",
                    subject="adapter",
                )
            digest = hashlib.sha256(data).hexdigest()
            start = request.offset if request.sha256 == digest else 0
            if start > len(data):
                raise OutOfRange(
                    f"offset {start} lies past the end at {len(data)}",
                    fix="delete the partial file and start at 0",
                    subject="offset",
                    metadata={"bytes": str(len(data))},
                )
            yield wire.GetAdapterResponse(file=wire.AdapterFile(sha256=digest, bytes=len(data)))
            for place in range(start, len(data), CHUNK):
                yield wire.GetAdapterResponse(chunk=data[place : place + CHUNK])

    def _read(self, files: AdapterFiles) -> LocalAdapter:
        with files.opened() as folder:
            return to_local(folder, self._encoder)


def stays_here() -> NotReady:
    """Return the error for a tenant that may not download adapters."""
    return NotReady(
        "this provider does not hand out adapters",
        fix="have the cloud answer with --where cloud, or ask the provider, who allows it with "
        "`sotto-cloud serve --hand-out-adapters`",
        subject="adapter",
    )
