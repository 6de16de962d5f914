"""A server shows no certificate that nobody should trust."""

from __future__ import annotations

import logging

import pytest

from sottovoce.core.errors import ConfigError
from sottovoce.core.rpc.address import check_certificate
from tests.support.certificates import Certificate


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
