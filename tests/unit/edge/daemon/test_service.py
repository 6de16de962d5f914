"""The service as apps see it: over a real socket, with errors that programs can read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.config import Config
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc
from tests.support.agent import configured, running, wanted
from tests.support.stub_cloud import stub_cloud

TEXT = "Anna was in the garden by the pond"
NUMBER = 555_014_200_000


@contextmanager
def _app(config: Config, tagger: Tagger) -> Iterator[edge_agent_pb2_grpc.EdgeAgentServiceStub]:
    with running(config, tagger) as address, grpc.insecure_channel(address) as channel:
        yield edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)


@pytest.fixture
def app(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[edge_agent_pb2_grpc.EdgeAgentServiceStub]:
    with _app(configured(tmp_path, bundle=small_bundle_folder), lexicon_tagger) as stub:
        yield stub


def _requests(
    number: int = 20, adapter: str = "desk", request_id: str = "r"
) -> Iterator[agent.CustomizeRequest]:
    yield agent.CustomizeRequest(settings=wanted(adapter=adapter, request_id=request_id, epochs=2))
    for n in range(number):
        example = agent.LabelledText(text=f"{TEXT} {NUMBER + n}", label="ab"[n % 2])
        yield agent.CustomizeRequest(examples=agent.LabelledTexts(examples=[example]))


def _details(error: grpc.RpcError, kind: type) -> object:
    found = kind()
    status = rpc_status.from_call(error)
    assert any(detail.Unpack(found) for detail in status.details)
    return found


def test_words_are_reported_with_their_places(
    app: edge_agent_pb2_grpc.EdgeAgentServiceStub,
) -> None:
    answer = app.Privatize(agent.PrivatizeRequest(text=TEXT, words=True))
    assert (answer.level, answer.mechanism, answer.eta) == ("balanced", "pct2t.v2", 15.0)
    assert [TEXT[w.start : w.end] for w in answer.words] == TEXT.split()
    assert [answer.text[w.released_start : w.released_end] for w in answer.words] == (
        answer.text.split()
    )
    assert answer == app.Privatize(agent.PrivatizeRequest(text=TEXT, words=True))
    del answer.words[:]  # told only to those who ask
    assert answer == app.Privatize(agent.PrivatizeRequest(text=TEXT))
    strong = agent.PrivacyOptions(level="strong", mechanism="t2t.v1")
    answer = app.Privatize(agent.PrivatizeRequest(text=TEXT, privacy=strong))
    assert (answer.level, answer.mechanism, answer.eta) == ("strong", "t2t.v1", 4.0)


def test_a_stream_answers_in_order_while_it_is_open(
    app: edge_agent_pb2_grpc.EdgeAgentServiceStub,
) -> None:
    answered = threading.Semaphore(1)

    def requests() -> Iterator[agent.PrivatizeStreamRequest]:
        for n in range(50):
            assert answered.acquire(timeout=60)  # each only after the answer to the one before
            yield agent.PrivatizeStreamRequest(
                request_id=str(n), request=agent.PrivatizeRequest(text=f"{TEXT} {n}")
            )

    seen = []
    for answer in app.PrivatizeStream(requests()):
        seen.append(answer.request_id)
        answered.release()
    assert seen == [str(n) for n in range(50)]


def test_a_message_over_4_mib_is_refused(app: edge_agent_pb2_grpc.EdgeAgentServiceStub) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        app.Privatize(agent.PrivatizeRequest(text="a " * (3 << 20)))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert app.Privatize(agent.PrivatizeRequest(text=TEXT)).text


def test_no_bundle_and_no_cloud_are_preconditions(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path)
    with _app(config, lexicon_tagger) as app:
        with pytest.raises(grpc.RpcError, match="sotto pull") as caught:
            app.Privatize(agent.PrivatizeRequest(text=TEXT))
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        details = _details(caught.value, error_details_pb2.PreconditionFailure)
        assert details.violations[0].subject == "bundle"
        with pytest.raises(grpc.RpcError, match="no cloud is configured"):
            app.Customize(_requests())
        assert app.GetStatus(agent.GetStatusRequest()).bundle_id == ""
        # a bundle that arrives is used without a restart
        config.bundle.path.mkdir(parents=True)
        config.bundle.current.symlink_to(small_bundle_folder)
        assert app.Privatize(agent.PrivatizeRequest(text=TEXT)).text
        status = app.GetStatus(agent.GetStatusRequest())
        assert {level.name for level in status.levels} == {"strong", "balanced", "light"}
        assert status.backbone == "small"


def test_a_customisation_from_first_text_to_prediction(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with stub_cloud(small_bundle_folder) as cloud:
        config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CLOUD_ADDRESS=cloud.address)
        with _app(config, lexicon_tagger) as app:
            record = app.Customize(_requests()).customization
            assert record.examples == 20
            assert app.Customize(_requests()).customization.id == record.id
            states = [
                answer.customization.state
                for answer in app.WatchCustomization(
                    agent.WatchCustomizationRequest(adapter="desk")
                )
            ]
            assert states[-1] == agent.CUSTOMIZATION_STATE_SUCCEEDED
            answer = app.Predict(agent.PredictRequest(text=TEXT, adapter="desk"))
            assert answer.label in "ab"
            streamed = app.PredictStream(
                iter(
                    agent.PredictStreamRequest(
                        request_id=str(n), request=agent.PredictRequest(text=TEXT, adapter="desk")
                    )
                    for n in range(3)
                )
            )
            assert [(s.request_id, s.response) for s in streamed] == [
                (str(n), answer) for n in range(3)
            ]
            (listed,) = app.GetStatus(agent.GetStatusRequest()).customizations
            assert listed.id == record.id
        texts = {example.released_text for example in cloud.examples()}
        assert len(texts) == 20
        numbers = [str(NUMBER + n) for n in range(20)]
        assert not [n for n in numbers if any(n in text for text in texts)]


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ([], "first message has no settings"),
        ([agent.CustomizeRequest()], "first message has no settings"),
        (list(_requests())[1:], "first message has no settings"),
        (list(_requests())[:1] * 2, "after the first has no examples"),
    ],
)
def test_customize_wants_settings_and_then_examples(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    requests: list[agent.CustomizeRequest],
    said: str,
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CLOUD_ADDRESS="127.0.0.1:1")
    with _app(config, lexicon_tagger) as app:
        with pytest.raises(grpc.RpcError, match=said) as caught:
            app.Customize(iter(requests))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_watch_needs_a_name_that_exists(app: edge_agent_pb2_grpc.EdgeAgentServiceStub) -> None:
    for request, code in (
        (agent.WatchCustomizationRequest(), grpc.StatusCode.INVALID_ARGUMENT),
        (agent.WatchCustomizationRequest(id="x"), grpc.StatusCode.NOT_FOUND),
        (agent.WatchCustomizationRequest(adapter="x"), grpc.StatusCode.NOT_FOUND),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            next(app.WatchCustomization(request))
        assert caught.value.code() is code
