"""inference.proto: ordered answers under their ids, for tenants alone."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial

import grpc
import numpy as np
import pytest

from sottovoce.core.errors import BundleMismatch, InvalidInput, NotFound, Unauthenticated
from sottovoce.core.privacy.token_embedding import LONGEST, TokenEmbedding, pack
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.core.rpc.limits import LARGEST_PADDING
from sottovoce.core.rpc.streams import pad
from sottovoce.v1 import inference_pb2 as wire
from sottovoce.v1 import training_pb2
from tests.support.caller import Caller
from tests.support.peers import TOPICS, Peer, refused, rows

ETA = 30.0


@pytest.fixture(scope="module")
def trained(cloud: Peer) -> Iterator[Caller]:
    """A tenant with the adapter "topics"."""
    with cloud.caller("trained") as caller:
        caller.submit(cloud.bundle.id, rows(24))
        cloud.work()
        yield caller


def asked(
    cloud: Peer, text: str = "tree leaf", **changes: object
) -> wire.InferenceServicePredictRequest:
    fields = {"adapter": "topics", "released_text": text, "bundle_id": cloud.bundle.id}
    return wire.InferenceServicePredictRequest(**{**fields, **changes})


def predict(caller: Caller, request: wire.InferenceServicePredictRequest) -> dict[str, float]:
    answer = caller.inference.Predict(request, metadata=caller.metadata)
    return {score.label: score.probability for score in answer.scores}


def query(cloud: Peer, tokens: int = 3, seed: int = 0, **changes: object) -> wire.EncodeRequest:
    """Noisy vectors as a device sends them."""
    r = cloud.bundle.manifest.dimensions
    mechanism = TokenEmbedding(ETA)
    vectors = np.random.default_rng(seed).normal(size=(tokens, r)).astype(np.float32)
    fields = {
        "request_id": secrets.token_hex(8),
        "bundle_id": cloud.bundle.id,
        "mechanism": mechanism.name,
        "eta": ETA,
        "tokens": tokens,
        "vectors": pack(vectors, mechanism),
    }
    return wire.EncodeRequest(**{**fields, **changes})


def encode(caller: Caller, request: wire.EncodeRequest) -> np.ndarray:
    answer = caller.inference.Encode(request, metadata=caller.metadata)
    assert answer.request_id == request.request_id
    return np.array(answer.embedding, np.float32)


def test_all_labels_are_scored_most_probable_first(cloud: Peer, trained: Caller) -> None:
    scores = predict(trained, asked(cloud))
    assert set(scores) == set(TOPICS)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert sum(scores.values()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("name", ["none", "topics2"])
def test_an_adapter_that_is_not_there_is_not_found(cloud: Peer, trained: Caller, name: str) -> None:
    refused(lambda: predict(trained, asked(cloud, adapter=name)), NotFound, "adapter")


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({"adapter": "../topics"}, "adapter"),
        ({"released_text": " \n"}, "released_text"),
        ({"padding": b"\0a"}, "padding"),
        ({"padding": bytes(LARGEST_PADDING + 1)}, "padding"),
    ],
)
def test_what_makes_no_sense_is_refused_by_field(
    cloud: Peer, trained: Caller, changes: dict[str, object], subject: str
) -> None:
    refused(lambda: predict(trained, asked(cloud, **changes)), InvalidInput, subject)


def test_padding_changes_no_answer(cloud: Peer, trained: Caller) -> None:
    bare, padded = asked(cloud), asked(cloud)
    pad(padded)
    assert padded.ByteSize() > bare.ByteSize()
    assert predict(trained, padded) == pytest.approx(predict(trained, bare), abs=1e-4)
    largest = asked(cloud, padding=bytes(LARGEST_PADDING))
    streamed = wire.InferenceServicePredictStreamRequest(request_id="x", request=largest)
    (answer,) = trained.inference.PredictStream(iter([streamed]), metadata=trained.metadata)
    assert len(answer.response.scores) == len(TOPICS)
    query_bare, query_padded = query(cloud), query(cloud)
    pad(query_padded)
    assert encode(trained, query_padded) == pytest.approx(encode(trained, query_bare), abs=1e-5)


def test_a_text_of_another_bundle_is_refused(cloud: Peer, trained: Caller) -> None:
    for other in ("", "0" * 16):
        request = asked(cloud, bundle_id=other)
        refused(partial(predict, trained, request), BundleMismatch, "bundle_id")


def test_an_adapter_is_its_tenants_alone(cloud: Peer, trained: Caller, acme: Caller) -> None:
    assert predict(trained, asked(cloud))
    refused(lambda: predict(acme, asked(cloud)), NotFound, "adapter")


def test_an_adapter_goes_with_its_job(cloud: Peer, acme: Caller) -> None:
    job = acme.submit(cloud.bundle.id, rows(12), training={"epochs": 1})
    cloud.work()
    assert predict(acme, asked(cloud))
    acme.training.DeleteJob(training_pb2.DeleteJobRequest(job_id=job), metadata=acme.metadata)
    refused(lambda: predict(acme, asked(cloud)), NotFound, "adapter")


def test_predictions_come_in_order_under_their_ids(cloud: Peer, trained: Caller) -> None:
    texts = [words for words in TOPICS.values() for _ in range(4)] * 3
    requests = [
        wire.InferenceServicePredictStreamRequest(request_id=f"id-{n}", request=asked(cloud, text))
        for n, text in enumerate(texts)
    ]
    answers = list(trained.inference.PredictStream(iter(requests), metadata=trained.metadata))
    assert [a.request_id for a in answers] == [r.request_id for r in requests]
    for n in (0, 17, 35):
        streamed = {score.label: score.probability for score in answers[n].response.scores}
        assert streamed == pytest.approx(predict(trained, requests[n].request), abs=1e-4)


def test_an_embedding_is_as_wide_as_the_backbone_and_of_length_one(
    cloud: Peer, acme: Caller
) -> None:
    for tokens in (1, 3, LONGEST):
        found = encode(acme, query(cloud, tokens))
        assert found.shape == (cloud.bundle.manifest.backbone.hidden_size,)
        assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-4)


def test_the_same_query_gets_the_same_answer_and_another_does_not(
    cloud: Peer, acme: Caller
) -> None:
    request = query(cloud)
    assert encode(acme, request) == pytest.approx(encode(acme, request), abs=1e-5)
    assert encode(acme, request) != pytest.approx(encode(acme, query(cloud, seed=1)), abs=1e-3)


def test_embeddings_come_in_order_as_single_calls_give_them(cloud: Peer, acme: Caller) -> None:
    requests = [query(cloud, tokens=1 + n % 5, seed=n) for n in range(40)]
    sent = (wire.EncodeStreamRequest(request=one) for one in requests)
    answers = list(acme.inference.EncodeStream(sent, metadata=acme.metadata))
    assert [a.response.request_id for a in answers] == [one.request_id for one in requests]
    for n in (0, 17, 39):
        streamed = np.array(answers[n].response.embedding, np.float32)
        assert streamed == pytest.approx(encode(acme, requests[n]), abs=1e-4)


BAD = {
    "no id": ("request_id", {"request_id": ""}),
    "an id that is a text": ("request_id", {"request_id": "x" * 129}),
    "another mechanism": ("mechanism", {"mechanism": "pct2t.v1"}),
    "no mechanism": ("mechanism", {"mechanism": ""}),
    "eta zero": ("eta", {"eta": 0.0}),
    "eta not a number": ("eta", {"eta": float("nan")}),
    "padding that says something": ("padding", {"padding": b"\0a"}),
    "padding without end": ("padding", {"padding": bytes(LARGEST_PADDING + 1)}),
    "no tokens": ("tokens", {"tokens": 0, "vectors": b""}),
    "too many tokens": ("tokens", {"tokens": LONGEST + 1}),
    "rows short": ("vectors", {"vectors": b"\0\0"}),
    "half a number": ("vectors", {"vectors": b"\0"}),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_tensors_are_refused_by_field(cloud: Peer, acme: Caller, kind: str) -> None:
    subject, changes = BAD[kind]
    refused(lambda: encode(acme, query(cloud, **changes)), InvalidInput, subject)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 9.0])
def test_numbers_that_pack_would_not_write_are_refused(
    cloud: Peer, acme: Caller, value: float
) -> None:
    rows = np.full((3, cloud.bundle.manifest.dimensions), 0.1, "<f2")
    rows[1, 2] = value
    refused(lambda: encode(acme, query(cloud, vectors=rows.tobytes())), InvalidInput, "vectors")


def test_vectors_of_another_bundle_are_refused(cloud: Peer, acme: Caller) -> None:
    request = query(cloud, bundle_id="0" * 16)
    refused(lambda: encode(acme, request), BundleMismatch, "bundle_id")


def test_the_first_refused_ends_a_stream_after_the_answers_before_it(
    cloud: Peer, trained: Caller
) -> None:
    good = [query(cloud), query(cloud, seed=1)]
    sent = (
        wire.EncodeStreamRequest(request=r) for r in (*good, query(cloud, tokens=0), query(cloud))
    )
    encoding = trained.inference.EncodeStream(sent, metadata=trained.metadata)
    assert [next(encoding).response.request_id for _ in good] == [r.request_id for r in good]
    ends(encoding, InvalidInput)

    names = ("topics", "topics", "none", "topics")
    predicting = trained.inference.PredictStream(
        (
            wire.InferenceServicePredictStreamRequest(
                request_id=str(n), request=asked(cloud, adapter=a)
            )
            for n, a in enumerate(names)
        ),
        metadata=trained.metadata,
    )
    assert [next(predicting).request_id for _ in range(2)] == ["0", "1"]
    ends(predicting, NotFound)


def ends(stream: Iterator[object], kind: type[Exception]) -> None:
    """The next answer is that error."""
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    assert type(from_rpc_error(caught.value, peer="the cloud")) is kind


def test_a_stream_holds_no_long_ids(cloud: Peer, trained: Caller) -> None:
    request = wire.InferenceServicePredictStreamRequest(
        request_id="i" * 3_000, request=asked(cloud)
    )
    stream = trained.inference.PredictStream(iter([request]), metadata=trained.metadata)
    refused(lambda: next(stream), InvalidInput, "request_id")


def test_only_tenants_are_answered(cloud: Peer, trained: Caller) -> None:
    with cloud.caller("trained", token="guess") as thief:  # noqa: S106
        stub, metadata = thief.inference, thief.metadata
        streamed = wire.InferenceServicePredictStreamRequest(request_id="1", request=asked(cloud))
        for call in (
            lambda: predict(thief, asked(cloud)),
            lambda: encode(thief, query(cloud)),
            lambda: next(stub.PredictStream(iter([streamed]), metadata=metadata)),
            lambda: next(
                stub.EncodeStream(
                    iter([wire.EncodeStreamRequest(request=query(cloud))]), metadata=metadata
                )
            ),
        ):
            refused(call, Unauthenticated)
