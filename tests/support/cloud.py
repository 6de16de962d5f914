"""A real cloud on a socket in this process, and its callers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Final

import grpc

from sottovoce.cloud.api.server import Server
from sottovoce.cloud.config import Settings
from sottovoce.cloud.training.worker import Worker
from tests.support.caller import Caller, credentials

OWN_CONNECTION: Final = (("grpc.use_local_subchannel_pool", 1),)
"""Of a channel: as callers in other processes have, where gRPC would have all here share one."""


@dataclasses.dataclass
class Cloud:
    """A server in this process, and a way to call it as any tenant."""

    server: Server
    settings: Settings

    @property
    def bundle_id(self) -> str:
        """The default bundle."""
        return next(iter(self.server.bundles))

    @contextlib.contextmanager
    def caller(self, tenant: str = "acme", token: str | None = None) -> Iterator[Caller]:
        """Open a client with a separate connection; without a token, enrol the tenant first."""
        token = token or self.server.tenants.enroll(tenant)
        with grpc.insecure_channel(self.server.address, OWN_CONNECTION) as channel:
            yield Caller(channel, credentials(tenant, token))

    def work(self) -> None:
        """Trains all that is queued, in this thread."""
        settings = self.settings
        worker = Worker(
            settings.state,
            settings.backbone,
            decoder=settings.decoder,
        )
        while worker.run_next():
            pass
        worker.database.close()


@contextlib.contextmanager
def cloud(settings: Settings) -> Iterator[Cloud]:
    """A running server, stopped at the end."""
    server = Server(settings)
    server.start()
    try:
        yield Cloud(server, settings)
    finally:
        server.stop()
