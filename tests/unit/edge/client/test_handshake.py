"""Wrong certificates and protocols have distinct errors, each with a fix."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import grpc
import pytest

from sottovoce.core.errors import ConfigError, SottovoceError, Unavailable
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.handshake import diagnosis
from tests.support.agent import configured
from tests.support.certificates import Certificate
from tests.support.other_protocols import HTTP09, HTTP1, HTTP2, SMTP, SSH, saying
from tests.support.stub_cloud import stub_cloud

OURS = Certificate.make()


@pytest.fixture
def stopping() -> Iterator[ExitStack]:
    """Ends servers after a test, also after one that failed."""
    with ExitStack() as stack:
        yield stack


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
    pair = served and grpc.ssl_server_credentials([(served.key, served.certificate)])
    with stub_cloud(None, pair) as server:
        config = configured(
            tmp_path,
            SOTTO_CLOUD_ADDRESS=server.address,
            SOTTO_CLOUD_CA_FILE=str(tmp_path / "ca.pem"),
        ).cloud
        with closing(Cloud(config)) as cloud, pytest.raises(kind, match=said) as raised:
            cloud.check_tenant()
    assert fix in raised.value.fix


@pytest.mark.parametrize("call", ["get_manifest", "redeem_code", "check_tenant", "encode_stream"])
def test_tls_where_no_authority_is_named_is_no_silence(
    tmp_path: Path, stopping: ExitStack, call: str
) -> None:
    pair = grpc.ssl_server_credentials([(OURS.key, OURS.certificate)])
    server = stopping.enter_context(stub_cloud(None, pair))
    config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address).cloud
    given = {"get_manifest": [""], "redeem_code": ["ABCD", b"1" * 32], "encode_stream": [[]]}
    with closing(Cloud(config)) as cloud, pytest.raises(ConfigError, match="certificate") as raised:
        list(getattr(cloud, call)(*given.get(call, ())))
    assert "cloud.ca_file" in raised.value.fix
    assert "--ca-file" in raised.value.fix


@pytest.mark.parametrize("authority", [True, False])
@pytest.mark.parametrize(
    ("said", "named"),
    [(SSH, "SSH"), (SMTP, "neither"), (HTTP1, "HTTP/1"), (HTTP09, "HTTP/1")],
)
def test_another_protocol_is_named(
    tmp_path: Path, said: bytes, named: str, authority: bool
) -> None:
    (tmp_path / "ca.pem").write_bytes(OURS.certificate)
    trust = {"SOTTO_CLOUD_CA_FILE": str(tmp_path / "ca.pem")} if authority else {}
    with saying(said) as port:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=f"127.0.0.1:{port}", **trust).cloud
        with closing(Cloud(config)) as cloud, pytest.raises(ConfigError, match=named) as raised:
            cloud.get_manifest("")
    assert "cloud.address" in raised.value.fix


def test_a_web_server_with_tls_is_named(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*OURS.write(tmp_path))
    for protocols in (None, ["http/1.1"]):
        if protocols:
            context.set_alpn_protocols(protocols)
        with saying(HTTP1, context) as port:
            found = diagnosis("127.0.0.1", port, OURS.certificate)
        assert isinstance(found, ConfigError)
        assert "HTTP" in found.problem
        assert "cloud.address" in found.fix


def test_a_grpc_server_without_our_services_is_a_wrong_address(
    tmp_path: Path, stopping: ExitStack
) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    stopping.callback(lambda: server.stop(0).wait())
    config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=f"127.0.0.1:{port}").cloud
    with (
        closing(Cloud(config)) as cloud,
        pytest.raises(ConfigError, match="no server of Sottovoce"),
    ):
        cloud.get_manifest("")


def test_a_cloud_that_speaks_http_2_and_hangs_up_may_be_tried_again(tmp_path: Path) -> None:
    with saying(HTTP2) as port:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=f"127.0.0.1:{port}").cloud
        with closing(Cloud(config)) as cloud, pytest.raises(Unavailable):
            cloud.get_manifest("")


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
