"""A fake cloud with a port for certificates, and a device that is to call there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from sottovoce.edge.config import Config
from tests.support.agent import configured
from tests.support.certificates import Certificate
from tests.support.fake_authority import FakeAuthority
from tests.support.fake_cloud import FakeCloud

TLS = Certificate.make()


def open_ports(server: FakeCloud) -> None:
    """Starts it with both ports, and whatever authority it has now."""
    pair = [(TLS.key, TLS.certificate)]
    assert server.authority is not None
    server.devices = grpc.ssl_server_credentials(
        pair, server.authority.pem, require_client_auth=True
    )
    server.start(grpc.ssl_server_credentials(pair))


@contextmanager
def certifying(bundle: Path | None = None) -> Iterator[FakeCloud]:
    """A running one."""
    server = FakeCloud(bundle)
    server.authority = FakeAuthority()
    open_ports(server)
    try:
        yield server
    finally:
        server.stop()
        server.finish()


def calling(folder: Path, server: FakeCloud, *, bundle: Path | None = None) -> Config:
    """A device's settings."""
    (folder / "ca.pem").write_bytes(TLS.certificate)
    return configured(
        folder,
        bundle=bundle,
        SOTTO_AGENT_STATE=str(folder / "state"),
        SOTTO_CLOUD_ADDRESS=server.address,
        SOTTO_CLOUD_CA_FILE=str(folder / "ca.pem"),
        SOTTO_CLOUD_DEVICES_PORT=str(server.devices_port),
    )
