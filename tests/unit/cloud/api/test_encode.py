"""Encode over a real channel: right answers, and bad tensors that harm no other request."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from numpy.typing import NDArray

from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.core.privacy.noise import SecureRandom
from sottovoce.core.privacy.token_embedding import TokenEmbedding, pack
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.v1 import inference_pb2 as wire
from tests.support.caller import Caller
from tests.support.cloud import Cloud
from tests.support.examples import examples

TEXTS = [row.text for row in examples(40, seed=9)]
ALMOST_NO_NOISE = 5_000.0
MANY = 10_000


@pytest.fixture(scope="module")
def acme(running: Cloud) -> Iterator[Caller]:
    with running.caller("acme") as caller:
        yield caller


def request(
    running: Cloud, text: str = TEXTS[0], eta: float = ALMOST_NO_NOISE, **changes: object
) -> wire.EncodeRequest:
    """A query as a device makes it."""
    bundle = running.server.bundles[running.bundle_id]
    loaded = backbone.load(running.settings.backbone)
    ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    mechanism = TokenEmbedding(eta)
    units = unit_rows(bundle.tokens[ids])
    noisy = mechanism.perturb(units, SecureRandom())
    fields = {
        "request_id": secrets.token_hex(8),
        "bundle_id": bundle.id,
        "mechanism": mechanism.name,
        "eta": eta,
        "tokens": len(ids),
        "vectors": pack(noisy, mechanism),
    }
    return wire.EncodeRequest(**{**fields, **changes})


def encode(acme: Caller, asked: wire.EncodeRequest) -> NDArray[np.float32]:
    answer = acme.inference.Encode(asked, metadata=acme.metadata)
    assert answer.request_id == asked.request_id
    return np.array(answer.embedding, np.float32)


def test_with_hardly_any_noise_it_is_the_backbones_own_embedding(
    running: Cloud, acme: Caller
) -> None:
    clean = Encoder(backbone.load(running.settings.backbone)).encode_clean(TEXTS[:5]).numpy()
    for text, row in zip(TEXTS, clean, strict=False):
        assert float(encode(acme, request(running, text)) @ row) > 0.999
    other = float(encode(acme, request(running, TEXTS[0], eta=1.0)) @ clean[0])
    assert other < 0.999  # so the agreement above is no accident


def _vectors(value: float) -> bytes:
    rows = np.full((3, 4), 0.5, "<f2")
    rows[1, 2] = value
    return rows.tobytes()


BAD = {
    "not a number": ("vectors", {"tokens": 3, "vectors": _vectors(np.nan)}),
    "infinite": ("vectors", {"tokens": 3, "vectors": _vectors(-np.inf)}),
    "past the clipping radius": ("vectors", {"tokens": 3, "vectors": _vectors(9.0)}),
    "a row short": ("vectors", {"tokens": 4, "vectors": _vectors(0)}),
    "half a number": ("vectors", {"tokens": 3, "vectors": _vectors(0)[:-1]}),
    "float32": ("vectors", {"tokens": 3, "vectors": np.full((3, 4), 0.5, "<f4").tobytes()}),
    "other dimensions": ("vectors", {"tokens": 3, "vectors": np.zeros((3, 5), "<f2").tobytes()}),
    "no tokens": ("tokens", {"tokens": 0, "vectors": b""}),
    "past the positions": ("tokens", {"tokens": 299, "vectors": bytes(2 * 4 * 299)}),
    "oversized": ("tokens", {"tokens": 100_000, "vectors": bytes(2 * 4 * 100_000)}),
    "eta not a number": ("eta", {"eta": float("nan")}),
    "eta zero": ("eta", {"eta": 0.0}),
    "eta negative": ("eta", {"eta": -1.0}),
    "eta beyond all measure": ("eta", {"eta": 1e300}),
    "another mechanism": ("mechanism", {"mechanism": "pct2t.v1"}),
    "no id": ("request_id", {"request_id": ""}),
    "an id that is a text": ("request_id", {"request_id": "x" * 129}),
}


def _refused(acme: Caller, asked: wire.EncodeRequest) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        acme.inference.Encode(asked, metadata=acme.metadata)
    return caught.value


def test_bad_tensors_are_refused_and_harm_no_other_request(running: Cloud, acme: Caller) -> None:
    good = request(running, eta=10.0)
    alone = encode(acme, good)

    refused: dict[str, grpc.RpcError] = {}

    def between() -> Iterator[wire.EncodeStreamRequest]:
        """A stream of good queries, with a bad one beside it each time."""
        for name, (_, changes) in BAD.items():
            yield wire.EncodeStreamRequest(request=good)
            bad = request(running, eta=10.0)
            for field, value in changes.items():
                setattr(bad, field, value)
            refused[name] = _refused(acme, bad)

    answers = list(acme.inference.EncodeStream(between(), metadata=acme.metadata))
    assert len(answers) == len(BAD)
    for answer in answers:
        found = np.array(answer.response.embedding, np.float32)
        assert found == pytest.approx(alone, abs=1e-6)
    for name, (field, _) in BAD.items():
        error = refused[name]
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, name
        details = error_details_pb2.BadRequest()
        assert any(d.Unpack(details) for d in rpc_status.from_call(error).details), name
        assert [v.field for v in details.field_violations] == [field], name
        assert from_rpc_error(error, peer="cloud").fix, name


def test_a_message_past_4_mib_does_not_even_arrive(running: Cloud, acme: Caller) -> None:
    error = _refused(acme, request(running, vectors=bytes(5 << 20)))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    encode(acme, request(running))


def _resident() -> int:
    """Bytes of memory this process, client and server, holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_stream_of_10000_queries_holds_memory_flat(running: Cloud, acme: Caller) -> None:
    rows = np.full((20, 4), 0.3, "<f2").tobytes()
    asked = request(running, eta=10.0, tokens=20, vectors=rows)

    def sent() -> Iterator[wire.EncodeStreamRequest]:
        for number in range(MANY):
            asked.request_id = str(number)
            yield wire.EncodeStreamRequest(request=asked)

    settled = 0
    for number, answer in enumerate(acme.inference.EncodeStream(sent(), metadata=acme.metadata)):
        assert answer.response.request_id == str(number)
        if number == MANY // 5:
            settled = _resident()
    assert number == MANY - 1
    # 8,000 queries and answers are 4 MB in bytes alone, and several times that as objects.
    assert _resident() - settled < 3 << 20
