"""Metrics are right, reachable only where configured, and name no tenant."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.request import urlopen

import grpc
import pytest

from bench.live.testbed import free_address
from sottovoce.cloud.api.listener import until_told
from sottovoce.cloud.config import Settings
from sottovoce.cloud.job import Example
from sottovoce.core.errors import NotReady
from sottovoce.core.platform import memory
from sottovoce.v1 import inference_pb2 as wire
from sottovoce.v1 import training_pb2
from tests.support.backbones import tiny_bert
from tests.support.cloud import Cloud, cloud
from tests.support.examples import examples
from tests.support.tiny_bundle import tiny_bundle
from tests.support.waiting import until

TENANT, ADAPTER, TEXT, LABEL = "canary-tenant", "canary-adapter", "canary text", "canary-label"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A server with metrics, one job behind it and one in front."""
    root = tmp_path_factory.mktemp("cloud")
    bert = tiny_bert(root / "bert")
    bundle = tiny_bundle(root / "bundle", bert)
    address = free_address()
    settings = Settings(
        root / "state", (bundle,), f"unix:{root}/s.sock", str(bert), metrics=address
    )
    with cloud(settings) as started:
        yield started


def value(running: Cloud, name: str, **labels: str) -> float:
    return running.server.metrics.registry.get_sample_value(f"sottovoce_{name}", labels) or 0.0


def eventually(running: Cloud, expected: float, name: str, **labels: str) -> None:
    """A call is counted when it has ended, which its caller may notice first."""
    until(lambda: value(running, name, **labels) == expected)


def test_everything_is_counted_and_nothing_is_told(running: Cloud) -> None:
    rows = [
        Example(f"{TEXT} {row.text}", f"{LABEL}-{row.label}" if row.label == "office" else "other")
        for row in examples(24)
    ]
    with running.caller(TENANT) as canary:
        canary.submit(running.bundle_id, rows, adapter=ADAPTER, training={"epochs": 1})
        running.work()
        waiting = canary.create(running.bundle_id, adapter=ADAPTER)

        def asked(adapter: str = ADAPTER) -> wire.InferenceServicePredictRequest:
            return wire.InferenceServicePredictRequest(
                adapter=adapter, bundle_id=running.bundle_id, released_text=TEXT
            )

        for _ in range(3):
            canary.inference.Predict(asked(), metadata=canary.metadata)
        with pytest.raises(grpc.RpcError):
            canary.inference.Predict(asked("none-canary"), metadata=canary.metadata)
        stream = (wire.InferenceServicePredictStreamRequest(request=asked()) for _ in range(20))
        assert len(list(canary.inference.PredictStream(stream, metadata=canary.metadata))) == 20
        invented = canary.channel.unary_unary("/canary.v1/Method")
        with pytest.raises(grpc.RpcError):
            invented(b"", metadata=canary.metadata)

        eventually(running, 3, "calls_total", method="Predict", code="OK")
        eventually(running, 1, "calls_total", method="Predict", code="NOT_FOUND")
        eventually(running, 1, "calls_total", method="PredictStream", code="OK")
        assert value(running, "request_seconds_count") == 23
        assert value(running, "batch_requests_sum") == 23
        assert value(running, "adapters") == value(running, "adapter_loads_total") == 1
        assert value(running, "adapter_bytes") > 1_000
        assert value(running, "waiting_requests") == 0
        assert value(running, "jobs", state="succeeded") == 1
        assert value(running, "jobs", state="uploading") == 1
        assert value(running, "jobs", state="running") == 0
        shown = urlopen(f"http://{running.settings.metrics}/metrics").read().decode()
        canary.training.CancelJob(
            training_pb2.CancelJobRequest(job_id=waiting.id), metadata=canary.metadata
        )
    assert 'sottovoce_calls_total{code="OK",method="Predict"} 3.0' in shown
    assert "process_resident_memory_bytes" in shown
    assert 'sottovoce_process_info{role="serve"} 1.0' in shown
    assert "canary" not in shown.lower()
    assert waiting.id not in shown
    assert value(running, "jobs", state="cancelled") == 1


def test_a_call_the_client_ends_is_cancelled(running: Cloud) -> None:
    with running.caller("leaver") as leaver:
        job = leaver.create(running.bundle_id)
        request = training_pb2.WatchJobRequest(job_id=job.id)
        stream = leaver.training.WatchJob(request, metadata=leaver.metadata)
        next(stream)
        stream.cancel()
        eventually(running, 1, "calls_total", method="WatchJob", code="CANCELLED")


def test_training_speed_is_of_the_jobs_that_run(running: Cloud) -> None:
    with running.server.database.write() as transaction:
        transaction.change(
            "UPDATE jobs SET state = 'RUNNING', progress = '{\"examples_per_second\": 12.5}' "
            "WHERE state = 'SUCCEEDED'"
        )
    assert value(running, "training_examples_per_second") == 12.5
    assert value(running, "jobs", state="running") == 1


def test_its_heap_is_bound_before_anything_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[int] = []
    monkeypatch.setattr(memory, "bound_heap", lambda large, arenas: bound.append(large))

    def opened() -> None:
        assert bound, "a heap that grew first stays as it is"
        raise NotReady("opened")

    with pytest.raises(NotReady, match="opened"):
        until_told(opened, lambda server: None)  # type: ignore[type-var]


def test_without_room_for_its_threads_no_server_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def opened() -> None:
        raise AssertionError("it was opened")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    with pytest.raises(NotReady, match="only 0 more threads"):
        until_told(opened, lambda server: None)  # type: ignore[type-var]
