"""What is wrong with TLS is told apart, each with a mend of its own."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from sottovoce.core.errors import ConfigError, SottovoceError, Unavailable
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.handshake import diagnosis
from tests.support.agent import configured
from tests.support.certificates import Certificate
from tests.support.fake_cloud import FakeCloud

OURS = Certificate.make()


@pytest.mark.parametrize(
    ("served", "trusted", "kind", "said", "fix"),
    [
        (Certificate.make(), OURS, ConfigError, "an authority that", "cloud.ca_file"),
        (Certificate.make("127.0.0.2"), None, ConfigError, "another name", "cloud.address"),
        (Certificate.make(days=(-9, -2)), None, Unavailable, "has expired", "clock"),
        (Certificate.make(days=(2, 9)), None, Unavailable, "not valid yet", "clock"),
        (None, OURS, ConfigError, "does not speak TLS", "cloud.address"),
    ],
)
def test_every_failure_has_its_own_message(
    tmp_path: Path,
    served: Certificate | None,
    trusted: Certificate | None,
    kind: type[SottovoceError],
    said: str,
    fix: str,
) -> None:
    authority = trusted or served
    assert authority is not None
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    server = FakeCloud()
    server.start(served and grpc.ssl_server_credentials([(served.key, served.certificate)]))
    config = configured(
        tmp_path,
        SOTTO_CLOUD_ADDRESS=server.address,
        SOTTO_CLOUD_CA_FILE=str(tmp_path / "ca.pem"),
    ).cloud
    with closing(Cloud(config)) as cloud, pytest.raises(kind, match=said) as raised:
        cloud.check_tenant()
    server.stop()
    assert fix in raised.value.fix


def test_who_is_not_there_or_hangs_up_is_no_matter_of_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def hang_up() -> None:
            listening.accept()[0].close()

        hanging = threading.Thread(target=hang_up)
        hanging.start()
        assert diagnosis("127.0.0.1", port, OURS.certificate) is None
        hanging.join()
    assert diagnosis("127.0.0.1", port, OURS.certificate) is None


def test_an_authority_that_is_none_is_named() -> None:
    for roots in (b"no certificate", b"\xff"):
        found = diagnosis("127.0.0.1", 1, roots)
        assert found is not None
        assert (type(found), "cloud.ca_file" in found.fix or "PEM" in found.fix) == (
            ConfigError,
            True,
        )
