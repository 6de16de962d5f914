"""Unauthenticated callers crowd out neither tenants nor each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sottovoce.cloud.api.listener import STREAMS
from sottovoce.cloud.config import Settings
from sottovoce.v1 import bundles_pb2 as wire
from sottovoce.v1 import bundles_pb2_grpc
from tests.support.backbones import tiny_bert
from tests.support.cloud import Cloud, cloud
from tests.support.raw_http2 import RawConnection
from tests.support.tiny_bundle import tiny_bundle
from tests.support.waiting import among_a_flood


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Run a cloud without callers."""
    folder: Path = tmp_path_factory.mktemp("strangers")
    bert = tiny_bert(folder / "bert")
    bundle = tiny_bundle(folder / "bundle", bert)
    with cloud(Settings(folder / "state", (bundle,), "127.0.0.1:0", str(bert))) as running:
        yield running


def test_headers_without_a_message_close_the_cloud_to_nobody(running: Cloud) -> None:
    with running.caller("acme") as acme, ExitStack() as flood:
        for _ in range(4):  # 256 of a connection are let in, 704 held all threads and their queue
            raw = flood.enter_context(RawConnection(running.server.address))
            for path in (
                "/grpc.health.v1.Health/Check",
                "/sottovoce.v1.BundlesService/GetManifest",
            ):
                for _ in range(150):
                    raw.open(path)
        with grpc.insecure_channel(running.server.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for place in range(3):
                check = partial(health.Check, health_pb2.HealthCheckRequest(), timeout=20)
                answer = among_a_flood(check)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
                assert acme.create(running.bundle_id, adapter=f"in-time-{place}").id


@pytest.mark.parametrize(
    "path",
    [
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/grpc.health.v1.Health/Watch",
    ],
)
def test_nameless_streams_that_stand_still_stop_no_pull(running: Cloud, path: str) -> None:
    with ExitStack() as flood, running.caller(f"t{len(path)}") as tenant:
        raw = flood.enter_context(RawConnection(running.server.address))
        for _ in range(3 * STREAMS):
            stream = raw.open(path)
            if path.endswith("Watch"):
                raw.send(stream, health_pb2.HealthCheckRequest().SerializeToString())
        with grpc.insecure_channel(running.server.address) as channel:
            bundles = bundles_pb2_grpc.BundlesServiceStub(channel)  # type: ignore[no-untyped-call]
            ask = partial(bundles.GetManifest, wire.GetManifestRequest(), timeout=60)
            manifest = among_a_flood(ask)
            for _ in range(3):
                asked = wire.FetchFileRequest(bundle_id=manifest.bundle_id, path="rows.npy")
                parts = among_a_flood(lambda asked=asked: [*bundles.FetchFile(asked, timeout=60)])
                assert sum(len(part.chunk) for part in parts) > 0
        assert tenant.create(running.bundle_id).id
