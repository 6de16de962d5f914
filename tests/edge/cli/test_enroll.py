"""`sotto enroll`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.device_certificate import DeviceCertificate
from tests.support.certified import TLS, certifying
from tests.support.fake_cloud import FakeCloud

from .conftest import Device


def _bare(device: Device) -> None:
    """As a device is before anybody told it anything of a tenant."""
    for name in ("SOTTO_CLOUD_TENANT", "SOTTO_CLOUD_TOKEN_FILE"):
        device.environment.pop(name, None)


def test_a_new_device_is_let_in_and_the_configuration_says_so(
    new_device: Callable[..., Device], cloud: FakeCloud
) -> None:
    device = new_device()
    _bare(device)
    code = cloud.code("acme", "hall")
    (told,) = device.json("enroll", code, "--address", cloud.address)
    assert (told["tenant"], told["name"], told["ends"]) == ("acme", "hall", None)
    written = tomllib.loads(Path(told["config"]).read_text())["cloud"]
    assert written["tenant"] == "acme"
    assert Path(written["token_file"]).read_text().strip() not in str(told)
    device.sotto("pull", cloud.address)
    assert device.config.cloud.tenant == "acme"
    error = device.sotto("enroll", code, code=7).stderr
    assert "fix:" in error
    again = cloud.code("acme", "shed")
    assert "shed of acme" in device.sotto("enroll", stdin=f"{again}\n").stdout


def test_it_needs_to_know_which_cloud(new_device: Callable[..., Device]) -> None:
    device = new_device()
    _bare(device)
    assert "--address" in device.sotto("enroll", "0000-0000-0000", code=3).stderr


def test_a_configuration_that_cannot_be_written_keeps_the_token_and_the_code(
    new_device: Callable[..., Device], cloud: FakeCloud
) -> None:
    device = new_device()
    _bare(device)
    code, token = cloud.code("acme", "hall"), device.folder / "schlüssel 🔑"
    token.write_text("of before\n")
    asked = ("enroll", code, "--address", cloud.address, "--token-file", str(token))
    (told,) = device.json("config", "set", "privacy.level", "strong")
    file = Path(told["file"])
    before = file.read_text()
    file.write_text(f'cloud.tenant = "x"\n{before}')  # in a way that is not ours to change
    device.sotto(*asked, code=78)
    assert token.read_text() == "of before\n"
    file.write_text(before)
    device.sotto(*asked)
    assert cloud.redeemed("acme", token.read_text().strip())
    assert tomllib.loads(file.read_text())["cloud"]["token_file"] == str(token)


def test_a_device_is_told_of_the_port_for_certificates_and_gets_one(
    new_device: Callable[..., Device],
) -> None:
    device = new_device()
    _bare(device)
    ca = device.folder / "cloud-ca.pem"
    ca.write_bytes(TLS.certificate)
    with certifying() as server:
        asked = ("--address", server.address, "--ca-file", str(ca))
        (told,) = device.json("enroll", server.code("acme", "hall"), *asked)
        written = tomllib.loads(Path(told["config"]).read_text())["cloud"]
        assert written["devices_port"] == server.devices_port
        assert told["certificate_until"] is not None
        device.environment.pop("SOTTO_CLOUD_ADDRESS", None)
        key = DeviceCertificate(device.config.agent.state, server.address).files[1]
        first = key.read_bytes()
        said = device.sotto("enroll", server.code("acme", "shed"), *asked).stdout
        assert "its certificate is renewed before" in said
        assert key.read_bytes() != first
        server.refuses_keys = 4  # all attempts: the device is let in, and asks again when it calls
        again = device.sotto("enroll", server.code("acme", "gate"), *asked)
        assert "no certificate yet" in again.stderr
        assert "gate of acme" in again.stdout
        port, server.devices_port = server.devices_port, 0  # it wants none any more
        before = key.read_bytes()
        again = device.sotto("enroll", server.code("acme", "barn"), *asked, "--json")
        assert f"cloud.devices_port was {port} and is 0" in again.stderr
        told = json.loads(again.stdout)
        assert told["certificate_until"] is None
        assert tomllib.loads(Path(told["config"]).read_text())["cloud"]["devices_port"] == 0
        assert before
        assert not key.exists()
    assert len(server.signed) == 2


def test_the_old_key_is_gone_before_the_new_token_is_there(
    new_device: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a daemon that runs could have the one signed for the other."""
    device = new_device()
    _bare(device)
    ca = device.folder / "cloud-ca.pem"
    ca.write_bytes(TLS.certificate)
    forget, seen = DeviceCertificate.forget_key, []
    with certifying() as server:
        asked = ("--address", server.address, "--ca-file", str(ca))
        (told,) = device.json("enroll", server.code("acme", "hall"), *asked)
        token = Path(told["token_file"])
        before = token.read_text()

        def forgotten(kept: DeviceCertificate) -> None:
            seen.append(token.read_text())
            forget(kept)

        monkeypatch.setattr(DeviceCertificate, "forget_key", forgotten)
        device.sotto("enroll", server.code("acme", "shed"), *asked)
    assert seen == [before]
    assert token.read_text() != before


def test_another_cloud_never_sees_the_key(new_device: Callable[..., Device]) -> None:
    """Enrolled at one with certificates, then at one without, where the port is set by hand."""
    device = new_device()
    _bare(device)
    ca = device.folder / "cloud-ca.pem"
    ca.write_bytes(TLS.certificate)
    with certifying() as one, certifying() as other:
        port, other.devices_port = other.devices_port, 0
        for server in (one, other):
            asked = ("--address", server.address, "--ca-file", str(ca))
            device.sotto("enroll", server.code("acme", "hall"), *asked)
        device.json("config", "set", "cloud.devices_port", str(port))
        with closing(Cloud(device.config.cloud, device.config.agent.state)) as cloud:
            cloud.check_tenant()
    keys = {_public(one.signed[0]), _public(other.signed[0])}
    assert len(keys) == 2


def _public(der: bytes) -> bytes:
    key = x509.load_der_x509_certificate(der).public_key()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
