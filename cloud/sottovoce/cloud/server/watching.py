"""Stream the versions of a tenant's adapters to its devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from sottovoce.cloud.config import check_name
from sottovoce.cloud.server.admission import Admission
from sottovoce.cloud.state.adapters import versions
from sottovoce.cloud.state.database import Database
from sottovoce.core.errors import InvalidInput
from sottovoce.v1 import training_pb2 as wire

__all__ = ["FOLLOWERS", "Followers"]

FOLLOWERS, FOLLOWERS_PER_TENANT = 128, 64
"""Open calls at once; each holds a thread for some minutes."""

_FOLLOWED: Final = 32
_LOOK_SECONDS: Final = 1.0
_SECONDS: Final = 300.0


class Followers:
    """Streams versions.

    Args:
        database: stores them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._admission = Admission(calls=FOLLOWERS, per_tenant=FOLLOWERS_PER_TENANT)

    def stream(
        self, tenant: str, request: wire.WatchAdaptersRequest, listening: Callable[[], bool]
    ) -> Iterator[wire.WatchAdaptersResponse]:
        """Yield versions at once and on every change, for some minutes, while the client listens.

        Raises:
            InvalidInput: no names, or too many. Overloaded: too many streams are open.
        """
        names = set(request.adapters)
        if not 0 < len(names) <= _FOLLOWED:
            raise InvalidInput(
                f"{len(names)} adapters to watch", fix=f"name 1 to {_FOLLOWED}", subject="adapters"
            )
        for name in names:
            check_name(name, "adapter")
        said: dict[str, str] = {}
        ends = time.monotonic() + _SECONDS
        with self._admission.admitted(tenant):
            while listening() and time.monotonic() < ends:
                now = versions(self._database, tenant, names)
                for name, version in sorted(now.items()):
                    if said.get(name) != version:
                        yield wire.WatchAdaptersResponse(adapter=name, version=version)
                said = now
                # The trainer is another process, so the database must be polled.
                time.sleep(_LOOK_SECONDS)
