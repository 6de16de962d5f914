"""Addresses: their meaning and reach."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest

from sottovoce.core.errors import ConfigError
from sottovoce.core.rpc.address import (
    answers,
    check_certificate,
    is_loopback,
    socket_path,
    split_address,
)
from tests.support.certificates import Certificate


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("cloud.example.org", ("cloud.example.org", 8471)),
        ("cloud.example.org:443", ("cloud.example.org", 443)),
        ("[::1]:9000", ("::1", 9000)),
        ("[::1]", ("::1", 8471)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
    ],
)
def test_addresses_split(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    ["", ":8471", "host:", "host:99999", "host:x", "https://host", "host:٣", "host:" + "5" * 5_000],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        split_address(address)


def test_loopback_is_told_from_the_network() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"))
    assert not any(
        is_loopback(host) for host in ("10.1.2.3", "192.168.0.1", "localhost.evil.example", "::")
    )


def test_socket_paths_that_the_kernel_would_cut_are_refused() -> None:
    assert socket_path("unix:/run/a.sock") == Path("/run/a.sock")
    assert socket_path("127.0.0.1:1") is None
    with pytest.raises(ConfigError, match="shorter"):
        socket_path("unix:/" + "x" * 107)


def test_a_stale_socket_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert not answers(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert answers(path)
    assert path.exists()
    assert not answers(path)


@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        (Certificate.make(days=(-9, -2)).certificate, "expired on"),
        (Certificate.make(days=(2, 9)).certificate, "not valid before"),
        (Certificate.make(rsa_bits=1024).certificate, "1024 bits"),
        (Certificate.make().certificate + Certificate.make(days=(-9, -2)).certificate, "hangs on"),
        (b"none at all", "cannot be read"),
    ],
)
def test_what_nobody_should_trust_is_refused(certificate: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        check_certificate(certificate, "agent.tls_cert")
    assert (raised.value.subject, bool(raised.value.fix)) == ("agent.tls_cert", True)


def test_what_ends_soon_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check_certificate(Certificate.make(days=(-1, 90), rsa_bits=2048).certificate, "--tls-cert")
        assert caplog.text == ""
        check_certificate(Certificate.make(days=(-1, 3)).certificate, "--tls-cert")
    assert "renew it" in caplog.text
