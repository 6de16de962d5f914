"""A cloud with a port for certificates, and how devices and others come in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from sottovoce.cloud.config import Settings
from sottovoce.cloud.tenants.authority import Authority
from sottovoce.cloud.tenants.credentials import Credentials
from sottovoce.core.errors import (
    SottovoceError,
)
from sottovoce.core.rpc.status import from_rpc_error
from sottovoce.v1 import enrollment_pb2
from sottovoce.v1 import training_pb2 as training
from tests.support import device_keys as keys
from tests.support.backbones import tiny_bert
from tests.support.caller import Caller, credentials
from tests.support.certificates import Certificate
from tests.support.cloud import Cloud, cloud
from tests.support.tiny_bundle import tiny_bundle

__all__ = ["Place", "devices_place", "lists", "refusal", "refuses_every_call", "settings_of"]


@dataclass
class Place:
    """A cloud with both ports, and how to come in by either."""

    cloud: Cloud
    authority: Authority
    roots: bytes

    @property
    def plain(self) -> str:
        return self.cloud.server.address

    @property
    def devices(self) -> str:
        return self.cloud.server.devices_address

    def token(self, name: str) -> tuple[tuple[str, str], ...]:
        """Metadata of a new device of acme's."""
        return credentials("acme", Credentials(self.cloud.server.database).new("acme", name))

    def issue(self, metadata: Any, secret: Any) -> bytes:
        """A certificate, by the port that takes tokens alone."""
        with keys.shown(self.plain, self.roots, None) as channel:
            asked = enrollment_pb2.IssueCertificateRequest(csr=keys.request(secret))
            stub = Caller(channel, metadata).enrollment
            answer = stub.IssueCertificate(asked, metadata=metadata, timeout=60)
        return bytes(answer.certificate)

    @contextmanager
    def caller(self, metadata: Any, secret: Any, *chain: bytes) -> Iterator[Caller]:
        """Who shows a certificate."""
        with keys.shown(self.devices, self.roots, secret, *chain) as channel:
            yield Caller(channel, metadata)


def settings_of(folder: Path, tls: Certificate, **more: Any) -> Settings:
    certificate, key = tls.write(folder)
    bert = tiny_bert(folder / "bert")
    return Settings(
        folder / "state",
        (tiny_bundle(folder / "bundle", bert),),
        "127.0.0.1:0",
        str(bert),
        tls_cert=certificate,
        tls_key=key,
        threads=1,
        **more,
    )


@contextmanager
def devices_place(folder: Path, **more: Any) -> Iterator[Place]:
    tls = Certificate.make()
    authority = Authority.make(folder / "state")
    given = settings_of(folder, tls, devices_listen="127.0.0.1:0", **more)
    with cloud(given) as running:
        running.server.tenants.enroll("acme")
        yield Place(running, authority, tls.certificate)


def lists(caller: Caller) -> None:
    caller.training.ListJobs(training.ListJobsRequest(), metadata=caller.metadata, timeout=60)


def refusal(caller: Caller) -> SottovoceError:
    with pytest.raises(grpc.RpcError) as caught:
        lists(caller)
    return from_rpc_error(caught.value, peer="the cloud")


def refuses_every_call(caller: Caller, said: str, *modules: Any) -> None:
    for module in modules:
        (service,) = (
            s for n, s in module.DESCRIPTOR.services_by_name.items() if n.endswith("Service")
        )
        for method in service.methods:
            call = caller.channel.stream_stream(f"/{service.full_name}/{method.name}")
            with pytest.raises(grpc.RpcError) as caught:
                list(call(iter([b""]), metadata=caller.metadata, timeout=60))
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED, method.name
            assert said in caught.value.details()
