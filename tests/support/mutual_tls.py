"""A cloud that asks for certificates of clients, and how devices and others come in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from sottovoce.cloud.config import Settings
from sottovoce.cloud.tenants.credentials import Credentials
from sottovoce.core.errors import SottovoceError
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.v1 import training_pb2 as training
from tests.support.backbones import tiny_bert
from tests.support.caller import Caller, credentials
from tests.support.certificates import Certificate
from tests.support.cloud import Cloud, cloud
from tests.support.tiny_bundle import tiny_bundle

_OWN = (("grpc.use_local_subchannel_pool", 1),)


@dataclass
class Place:
    """A cloud, its clients' authority, and its own certificate's authority."""

    cloud: Cloud
    authority: Certificate
    tls: Certificate

    @property
    def address(self) -> str:
        return self.cloud.server.address

    def token(self, name: str) -> tuple[tuple[str, str], ...]:
        """Metadata of a new device of acme's."""
        return credentials("acme", Credentials(self.cloud.server.database).new("acme", name))

    @contextmanager
    def caller(self, metadata: Any, pair: Certificate | None) -> Iterator[Caller]:
        """Yield a caller with a certificate or without one."""
        with shown(self.address, self.tls.certificate, pair) as channel:
            yield Caller(channel, metadata)

    @contextmanager
    def beside(self) -> Iterator[str]:
        """The address of a server on the same store that asks for no certificate."""
        with cloud(replace(self.cloud.settings, client_ca=None)) as running:
            yield running.server.address


@contextmanager
def shown(address: str, roots: bytes, pair: Certificate | None) -> Iterator[grpc.Channel]:
    """Open a connection with a certificate or without one."""
    given = (pair.key, pair.certificate) if pair else ()
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(roots, *given), _OWN) as channel:
        yield channel


@contextmanager
def place_with(folder: Path, **more: Any) -> Iterator[Place]:
    tls, authority = Certificate.make(), Certificate.make()
    certificate, key = tls.write(folder)
    (folder / "clients.pem").write_bytes(authority.certificate)
    bert = tiny_bert(folder / "bert")
    settings = Settings(
        folder / "state",
        (tiny_bundle(folder / "bundle", bert),),
        "127.0.0.1:0",
        str(bert),
        tls_cert=certificate,
        tls_key=key,
        client_ca=folder / "clients.pem",
        threads=1,
        **more,
    )
    with cloud(settings) as running:
        running.server.tenants.enroll("acme")
        yield Place(running, authority, tls)


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
