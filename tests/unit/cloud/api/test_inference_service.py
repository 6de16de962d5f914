"""Predictions over a real channel, in order, from the caller's own adapters."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from sottovoce.cloud.api.inference_service import CALLS_PER_TENANT, WINDOW, InferenceService
from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.store import adapters
from sottovoce.cloud.store.adapters import AdapterFiles, locate, uninstall
from sottovoce.cloud.store.database import Database
from sottovoce.core import errors
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.v1 import inference_pb2 as wire
from sottovoce.v1 import training_pb2
from tests.support.caller import Caller
from tests.support.cloud import Cloud
from tests.support.examples import examples
from tests.support.serving import install_adapter, make
from tests.support.waiting import until

TEXTS = [row.text for row in examples(200, seed=5)]


@pytest.fixture(scope="module")
def acme(running: Cloud) -> Iterator[Caller]:
    """A tenant with the adapter "topics"."""
    with running.caller("acme") as caller:
        caller.submit(running.bundle_id, examples(60), training={"epochs": 3})
        running.work()
        yield caller


def request(
    running: Cloud, text: str = TEXTS[0], **changes: str
) -> wire.InferenceServicePredictRequest:
    fields = {"adapter": "topics", "bundle_id": running.bundle_id, "released_text": text}
    return wire.InferenceServicePredictRequest(**{**fields, **changes})


def predict(acme: Caller, asked: wire.InferenceServicePredictRequest) -> dict[str, float]:
    answer = acme.inference.Predict(asked, metadata=acme.metadata)
    return {score.label: score.probability for score in answer.scores}


def refused(acme: Caller, asked: wire.InferenceServicePredictRequest) -> errors.SottovoceError:
    with pytest.raises(grpc.RpcError) as caught:
        acme.inference.Predict(asked, metadata=acme.metadata)
    return from_rpc_error(caught.value, peer="cloud")


def test_the_adapter_knows_what_it_was_taught(running: Cloud, acme: Caller) -> None:
    rows = examples(45, seed=11)
    hits = 0
    for row in rows:
        scores = predict(acme, request(running, row.text))
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
        hits += next(iter(scores)) == row.label
    assert hits > 40  # chance is 15; the 99.999 % quantile 29


def test_a_stream_answers_before_it_ends(running: Cloud, acme: Caller) -> None:
    answered = threading.Event()

    def ask() -> Iterator[wire.InferenceServicePredictStreamRequest]:
        yield wire.InferenceServicePredictStreamRequest(request_id="1", request=request(running))
        assert answered.wait(60)
        yield wire.InferenceServicePredictStreamRequest(request_id="2", request=request(running))

    stream = acme.inference.PredictStream(ask(), metadata=acme.metadata)
    assert next(stream).request_id == "1"
    answered.set()
    assert [answer.request_id for answer in stream] == ["2"]


class Call:
    """The call interface that the service uses, without a wire that would read ahead."""

    def __init__(self, metadata: tuple[tuple[str, str], ...]) -> None:
        self.metadata = metadata
        self.active = True

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self.metadata

    def is_active(self) -> bool:
        return self.active


def test_a_stream_reads_no_further_than_its_window(running: Cloud, acme: Caller) -> None:
    read = 0

    def ask() -> Iterator[wire.InferenceServicePredictStreamRequest]:
        nonlocal read
        for i in range(10 * WINDOW):
            read += 1
            yield wire.InferenceServicePredictStreamRequest(
                request_id=str(i), request=request(running)
            )

    server = running.server
    service = InferenceService(
        server.database,
        server.tenants,
        server.bundles,
        server.predictor,
        server.embedder,
        ServerLimits(),
    )
    call = Call(acme.metadata)
    stream = service.PredictStream(ask(), cast(grpc.ServicerContext, call))
    for taken in range(1, 4):
        assert next(stream).request_id == str(taken - 1)
        until(lambda: read >= WINDOW)
        before = -1
        while read != before:  # until reading has come to rest
            before = read
            threading.Event().wait(0.1)
        # The window, the answers taken, and the one that waits for a place.
        assert read <= WINDOW + taken + 1
    call.active = False


@pytest.mark.parametrize("text", ["", " \n", "x" * 70_000])
def test_texts_empty_or_too_long_are_refused(running: Cloud, acme: Caller, text: str) -> None:
    error = refused(acme, request(running, text))
    assert isinstance(error, errors.InvalidInput)
    assert error.subject == "released_text"


def test_two_tenants_with_one_adapter_name_never_meet(running: Cloud) -> None:
    names = ("first", "second")
    state = running.settings.state
    expected: list[list[float]] = []
    tokens: list[str] = []
    for seed, tenant in enumerate(names):
        one = make(
            Path(running.settings.backbone),
            state / "jobs" / f"made-{tenant}" / "adapter",
            Lora(),
            seed=seed,
            bundle_id=running.bundle_id,
        )
        tokens.append(running.server.tenants.enroll(tenant))
        install_adapter(running.server.database, tenant, "topics", one.folder)
        expected.append(one.logits(TEXTS[0]).softmax(-1).sort(descending=True).values.tolist())
    assert expected[0] != pytest.approx(expected[1], abs=1e-2)
    wrong: list[str] = []

    def ask(number: int, caller: Caller) -> None:
        asked = [wire.InferenceServicePredictStreamRequest(request=request(running))] * 60
        for answer in caller.inference.PredictStream(iter(asked), metadata=caller.metadata):
            found = [score.probability for score in answer.response.scores]
            if found != pytest.approx(expected[number], abs=1e-4):
                wrong.append(names[number])

    with (
        running.caller(names[0], tokens[0]) as first,
        running.caller(names[1], tokens[1]) as second,
    ):
        threads = [
            threading.Thread(target=ask, args=pair) for pair in ((0, first), (1, second)) * 2
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not wrong


def test_too_many_calls_of_a_tenant_are_told_when_to_come_back(
    running: Cloud, acme: Caller
) -> None:
    done = threading.Event()

    def ask() -> Iterator[wire.InferenceServicePredictStreamRequest]:
        yield wire.InferenceServicePredictStreamRequest(request=request(running))
        done.wait(60)

    streams = [
        acme.inference.PredictStream(ask(), metadata=acme.metadata) for _ in range(CALLS_PER_TENANT)
    ]
    for stream in streams:
        next(stream)
    with pytest.raises(grpc.RpcError) as caught:
        acme.inference.Predict(request(running), metadata=acme.metadata)
    told_to_come_back(caught.value)
    with running.caller("patient") as other:  # who has open calls of its own
        assert isinstance(refused(other, request(running)), errors.NotFound)
    done.set()
    for stream in streams:
        assert not list(stream)
    assert predict(acme, request(running))


def test_a_full_queue_is_refused_and_what_was_asked_is_answered(
    running: Cloud, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = running.server.thread
    monkeypatch.setattr(thread, "_patience", 0.2)
    monkeypatch.setattr(thread, "_per_tenant", 5)
    entered, gate, submit = threading.Event(), threading.Event(), thread.submit

    def submitted(*arguments: Any, **options: Any) -> Any:
        try:
            return submit(*arguments, **options)
        except errors.Overloaded:
            gate.set()
            raise

    monkeypatch.setattr(thread, "submit", submitted)

    def hold(batch: Sequence[None]) -> Iterable[tuple[int, None]]:
        entered.set()
        assert gate.wait(60)
        return enumerate(batch)

    held = thread.submit(hold, None, tenant="other")
    assert entered.wait(60)
    asked = [wire.InferenceServicePredictStreamRequest(request=request(running))] * 20
    stream = acme.inference.PredictStream(iter(asked), metadata=acme.metadata)
    assert [len(next(stream).response.scores) for _ in range(5)] == [3] * 5
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    told_to_come_back(caught.value)
    held.result(60)
    assert predict(acme, request(running))


def told_to_come_back(error: grpc.RpcError) -> None:
    """RESOURCE_EXHAUSTED, with the seconds to wait."""
    assert cast(grpc.Call, error).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert isinstance(from_rpc_error(error, peer="cloud"), errors.Overloaded)
    status = rpc_status.from_call(cast(grpc.Call, error))
    assert status is not None
    retry = error_details_pb2.RetryInfo()
    assert any(detail.Unpack(retry) for detail in status.details)
    assert retry.retry_delay.seconds > 0


def test_a_deleted_adapter_is_not_answered_from_memory(running: Cloud) -> None:
    state = running.settings.state
    with running.caller("leaving") as leaving:
        one = make(
            Path(running.settings.backbone),
            state / "jobs" / "made-leaving" / "adapter",
            Lora(),
            bundle_id=running.bundle_id,
        )
        install_adapter(running.server.database, "leaving", "topics", one.folder)
        assert predict(leaving, request(running))
        with running.server.database.write() as transaction:
            uninstall(transaction, one.folder.parent.name)  # the files may still be there
        assert isinstance(refused(leaving, request(running)), errors.NotFound)


def test_an_adapter_that_goes_between_finding_and_reading_it_is_not_found_not_damaged(
    running: Cloud, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running.caller("between") as caller:
        jobs, located = [], []
        for _ in range(2):
            jobs.append(caller.submit(running.bundle_id, examples(24), training={"epochs": 1}))
            running.work()
            located.append(locate(running.server.database, "between", "topics"))
        first, second = located
        real = adapters.locate
        found = [first]  # as it was before the second job ended

        def earlier(database: Database, tenant: str, name: str) -> AdapterFiles:
            return found.pop() if found else real(database, tenant, name)

        monkeypatch.setattr(adapters, "locate", earlier)
        delete = training_pb2.DeleteJobRequest(job_id=jobs[0])
        caller.training.DeleteJob(delete, metadata=caller.metadata)
        assert len(predict(caller, request(running))) == 3
        found.append(second)
        caller.training.DeleteJob(
            training_pb2.DeleteJobRequest(job_id=jobs[1]), metadata=caller.metadata
        )
        assert isinstance(refused(caller, request(running)), errors.NotFound)
