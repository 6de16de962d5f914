"""From a code to predictions with a client certificate: real processes, and a real HAProxy."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import grpc
import pytest

from bench.live.testbed import Agent, command, free_address
from sottovoce.core.errors import SottovoceError
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.config import load
from tests.e2e.conftest import Light, behind_haproxy
from tests.support import haproxy
from tests.support.certificates import Certificate
from tests.support.paths import ROOT

TLS, CLIENTS = Certificate.make(), Certificate.make()


class Served:
    """``sotto-cloud serve`` that requires certificates."""

    def __init__(self, folder: Path, light: Light, *options: str) -> None:
        self.folder = folder
        certificate, key = TLS.write(folder)
        self._state = ("--state", str(folder / "cloud"))
        (folder / "ca.pem").write_bytes(TLS.certificate)
        (folder / "clients.pem").write_bytes(CLIENTS.certificate)
        listen = ("--listen", "127.0.0.1:0", "--client-ca", str(folder / "clients.pem"))
        tls = ("--tls-cert", str(certificate), "--tls-key", str(key))
        bundle = ("--bundle", str(light.bundle), "--backbone", str(light.backbone))
        asked = (*listen, *tls, *bundle, *options)
        with (folder / "cloud.log").open("ab") as log:
            self.process = subprocess.Popen(
                [command("sotto-cloud"), "serve", "--json", *self._state, *asked],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        self.address = json.loads(self.process.stdout.readline())["address"]

    def run(self, *arguments: str) -> str:
        line = [command("sotto-cloud"), *arguments]
        return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout

    def code(self, name: str) -> str:
        """For a device."""
        return self.run("tokens", "code", "acme", "--name", name, *self._state).split()[0]

    def enroll(self) -> None:
        """The tenant."""
        self.run("enroll", "acme", "--token-file", str(self.folder / "first"), *self._state)

    def revoke(self, name: str) -> None:
        """A device."""
        self.run("tokens", "revoke", "acme", name, *self._state)

    def kill(self) -> None:
        """As the kernel would."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def served(folder: Path, light: Light, *options: str) -> Iterator[Served]:
    running = Served(folder, light, *options)
    try:
        running.enroll()
        yield running
    finally:
        running.kill()


@contextmanager
def daemon(folder: Path, light: Light, cloud: Served, address: str = "") -> Iterator[Agent]:
    """Enrolled by a code as people do, then started."""
    folder.mkdir(exist_ok=True)
    device = Agent.at(folder)
    device.env |= {"HOME": str(folder), "SOTTO_CONFIG": str(folder / "agent.toml")}
    for name in ("SOTTO_CLOUD_ADDRESS", "SOTTO_CLOUD_TENANT", "SOTTO_CLOUD_TOKEN_FILE"):
        del device.env[name]
    certificate, key = CLIENTS.sign("hall").write(folder)
    (folder / "agent.toml").write_text(
        f'[cloud]\ncertificate = "{certificate}"\ncertificate_key = "{key}"\n'
    )
    device.hold(light.bundle)
    asked = ("--address", address or cloud.address, "--ca-file", str(cloud.folder / "ca.pem"))
    device.run("enroll", cloud.code("hall"), *asked, "--json")
    device.start()
    try:
        yield device
    finally:
        device.kill()


def test_a_device_customises_and_predicts_by_its_certificate(
    owner: Path, light: Light, lesson: tuple[list[str], list[str]]
) -> None:
    options, texts = lesson
    with served(owner, light) as cloud, daemon(owner / "device", light, cloud) as device:
        (done,) = map(json.loads, device.run("customize", "mail", *options).splitlines())
        assert done["state"] == "ready"
        asked = device.run("predict", "mail", "--where", "cloud", "--json", texts[0])
        assert json.loads(asked)["scores"]
        assert b"with a certificate until" in device.run("doctor")
        folder = Path(device.env["HOME"])
        CLIENTS.sign("hall", days=(-2, 2)).write(folder)  # renewed, while the daemon runs
        device.run("predict", "mail", "--where", "cloud", texts[0])
        # A copy of the token, with another device's certificate: of no use to a thief.
        (owner / "thief").mkdir()
        certificate, key = CLIENTS.sign("thief").write(owner / "thief")
        settings = dataclasses.replace(
            load(environ=device.env).cloud, certificate=certificate, certificate_key=key
        )
        foreign = pytest.raises(SottovoceError, match="belongs to another certificate")
        with closing(Cloud(settings)) as cloud_of_thief, foreign:
            cloud_of_thief.check_tenant()
        cloud.revoke("hall")
        with pytest.raises(subprocess.CalledProcessError):
            device.run("predict", "mail", "--where", "cloud", texts[0])


def _snippet(address: str, server: str) -> str:
    """What docs/scaling.md shows, for this machine."""
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(listen certificates\n.*?)```", page, re.DOTALL)
    text, servers = re.subn(r"(?m)^    server .*\n", "", shown)
    assert servers == 2
    assert text.count("0.0.0.0:8471") == 1
    return text.replace("0.0.0.0:8471", address) + f"    server one {server} check\n"


@behind_haproxy
def test_a_balancer_that_passes_tls_on_passes_certificates_on(owner: Path, light: Light) -> None:
    address = free_address()
    program = haproxy.found()
    assert program is not None
    with served(owner, light) as cloud:
        text = _printed(cloud) + "\n" + _snippet(address, cloud.address)
        with (
            haproxy.running(program, text),
            daemon(owner / "device", light, cloud, address) as device,
        ):
            with closing(Cloud(load(environ=device.env).cloud)) as cloud_of_device:
                cloud_of_device.check_tenant()
            bare = grpc.ssl_channel_credentials(TLS.certificate)
            with grpc.secure_channel(address, bare) as channel, pytest.raises(grpc.RpcError):
                channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=20)


def _printed(cloud: Served) -> str:
    """What goes before it."""
    rest = ("--replica", "127.0.0.1:1", "--front", "127.0.0.1:1", "--tls-cert")
    both = cloud.folder / "both.pem"
    both.write_bytes(TLS.certificate + TLS.key)
    return cloud.run("balancer-config", "--listen", free_address(), *rest, str(both))
