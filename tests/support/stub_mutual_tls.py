"""A stub cloud that asks for certificates, and the settings of a device that shows one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from tests.support.certificates import Certificate
from tests.support.stub_cloud import StubCloud, stub_cloud

TLS, CLIENTS = Certificate.make(), Certificate.make()


@contextmanager
def mutual_tls(bundle: Path | None = None, *, authority: bytes = b"") -> Iterator[StubCloud]:
    """Run a stub cloud with mutual TLS; the clients' authority defaults to `CLIENTS`."""
    pair = [(TLS.key, TLS.certificate)]
    roots = authority or CLIENTS.certificate
    credentials = grpc.ssl_server_credentials(pair, roots, require_client_auth=True)
    with stub_cloud(bundle, credentials) as server:
        yield server


def settings_for(folder: Path, server: StubCloud) -> dict[str, str]:
    """A device's settings; its pair lies in the folder's files ``certificate`` and ``key``."""
    (folder / "ca.pem").write_bytes(TLS.certificate)
    certificate, key = CLIENTS.sign("hall").write(folder)
    return {
        "SOTTO_AGENT_STATE": str(folder / "state"),
        "SOTTO_CLOUD_ADDRESS": server.address,
        "SOTTO_CLOUD_CA_FILE": str(folder / "ca.pem"),
        "SOTTO_CLOUD_CERTIFICATE": str(certificate),
        "SOTTO_CLOUD_CERTIFICATE_KEY": str(key),
    }
