"""Embeddings: sent vectors, charges, answers, and use without a cloud.

The stub cloud averages the vectors, and a plain stand-in replaces the denoiser, so numbers can be
followed. The end-to-end tests use the shipped denoiser.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import (
    InvalidInput,
    NotFound,
    NotReady,
    QuotaExceeded,
    SottovoceError,
    Unavailable,
)
from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.token_embedding import LONGEST, TokenEmbedding, unpack
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.client import retry
from sottovoce.edge.state.ledger import Spending
from sottovoce.edge.tasks import predict
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.predict import Embedder
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc
from sottovoce.v1 import inference_pb2 as inference
from tests.support.agent import configured, opened, running
from tests.support.embedding import TEXT, embed_request, embed_stream, row
from tests.support.plain_denoiser import PlainDenoiser
from tests.support.stub_cloud import StubCloud, stub_cloud


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST", 0.0)


@contextmanager
def _device(folder: Path, bundle: Path, tagger: Tagger, **environ: str) -> Iterator[Parts]:
    with opened(configured(folder, bundle=bundle, **environ), tagger) as device:
        device.embedder = Embedder(
            device.engine, device.keyring, device.ledger, device.cloud, "balanced", PlainDenoiser
        )
        yield device


@pytest.fixture
def cloud(small_bundle_folder: Path) -> Iterator[StubCloud]:
    with stub_cloud(small_bundle_folder) as server:
        yield server


@pytest.fixture
def device(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, cloud: StubCloud
) -> Iterator[Parts]:
    with _device(
        tmp_path, small_bundle_folder, lexicon_tagger, SOTTO_CLOUD_ADDRESS=cloud.address
    ) as device:
        yield device


def test_the_answer_is_denoised_and_says_what_it_cost(device: Parts, cloud: StubCloud) -> None:
    answer = device.embedder.embed(embed_request())
    assert np.linalg.norm(row(answer)) == pytest.approx(1, abs=1e-5)
    assert (answer.level, answer.eta, answer.tokens, answer.truncated) == (
        "balanced",
        15.0,
        4,
        False,
    )
    bundle = device.engine.current().bundle
    assert answer.bundle_id == bundle.id
    ids = bundle.tokenizer.ids(TEXT)
    (query,) = cloud.queries
    mean = unpack(query.vectors, 4, 8, TokenEmbedding(15.0)).mean(axis=0)
    sent = np.resize(mean, 16) / np.linalg.norm(np.resize(mean, 16))
    expected = PlainDenoiser(bundle).denoise(ids, sent, 15.0)
    assert row(answer) == pytest.approx(expected, abs=1e-6)


def test_a_level_the_owner_does_not_allow_is_neither_sent_nor_charged(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, cloud: StubCloud
) -> None:
    limits = {"SOTTO_CLOUD_ADDRESS": cloud.address, "SOTTO_PRIVACY_LARGEST_ETA": "14"}
    with _device(tmp_path, small_bundle_folder, lexicon_tagger, **limits) as device:
        with pytest.raises(NotReady, match="eta 15, and the owner") as caught:
            device.embedder.embed(embed_request())
        assert caught.value.subject == "privacy.largest_eta"
        assert (cloud.queries, device.ledger.spending()) == ([], Spending(0, 0))
        assert device.embedder.embed(embed_request(level="strong")).eta == 4.0


def test_with_hardly_any_noise_the_vectors_are_the_tokens_own(
    device: Parts, cloud: StubCloud
) -> None:
    device.embedder.embed(embed_request(level="light"))
    bundle = device.engine.current().bundle
    ids = bundle.tokenizer.ids(TEXT)
    (query,) = cloud.queries
    arrived = unpack(query.vectors, query.tokens, 8, TokenEmbedding(query.eta))
    assert arrived == pytest.approx(unit_rows(bundle.tokens[ids]), abs=5e-3)


def test_noise_falls_on_rows_of_length_one(device: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound holds for distances of at most 2. Clipping would hide a breach on the wire."""
    perturbed: list[NDArray[np.float32]] = []
    perturb = TokenEmbedding.perturb

    def seen(
        mechanism: TokenEmbedding, vectors: NDArray[np.float32], random: Random
    ) -> NDArray[np.float32]:
        perturbed.append(vectors)
        return perturb(mechanism, vectors, random)

    monkeypatch.setattr(TokenEmbedding, "perturb", seen)
    device.embedder.embed(embed_request())
    bundle = device.engine.current().bundle
    of_tokens = np.linalg.norm(bundle.tokens[bundle.tokenizer.ids(TEXT)], axis=1)
    assert not np.allclose(of_tokens, 1, atol=0.1)
    (vectors,) = perturbed
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-6)


def test_what_leaves_is_vectors_and_public_numbers_only(device: Parts, cloud: StubCloud) -> None:
    device.embedder.embed(embed_request())
    (query,) = cloud.queries
    bundle = device.engine.current().bundle
    assert (query.bundle_id, query.mechanism) == (bundle.id, "token-embedding.v1")
    assert (query.eta, query.tokens, len(query.vectors)) == (15.0, 4, 2 * 4 * 8)
    assert len(query.request_id) == 16
    rest = inference.EncodeRequest.FromString(query.SerializeToString())
    for field in ("request_id", "bundle_id", "mechanism", "eta", "tokens", "vectors"):
        rest.ClearField(field)
    assert (set(rest.padding), query.ByteSize()) == ({0}, 512)
    rest.ClearField("padding")
    assert rest.SerializeToString() == b""


def test_the_same_text_asks_with_the_same_vectors_and_is_charged_once(
    device: Parts, cloud: StubCloud
) -> None:
    for _ in range(3):
        device.embedder.embed(embed_request())
        assert device.ledger.spending() == Spending(4 * 15.0, 1)
    assert len({query.vectors for query in cloud.queries}) == 1
    assert len({query.request_id for query in cloud.queries}) == 3
    device.embedder.embed(embed_request(level="strong"))
    assert device.ledger.spending() == Spending(4 * (15.0 + 4.0), 2)
    device.keyring.rotate()
    device.embedder.embed(embed_request())
    assert device.ledger.spending() == Spending(4 * (15.0 + 4.0 + 15.0), 3)
    first, other, again = (query.vectors for query in (cloud.queries[0], *cloud.queries[3:]))
    assert len({first, other, again}) == 3


def test_texts_share_the_noise_of_what_they_share_and_nothing_else(
    device: Parts, cloud: StubCloud
) -> None:
    for text in ("river in the garden", "lamp in the garden", "garden the garden"):
        device.embedder.embed(embed_request(text))
    bundle = device.engine.current().bundle
    seen = []
    for query in cloud.queries:
        rows = unpack(query.vectors, query.tokens, 8, TokenEmbedding(15.0))
        seen.append(rows.round(4))
    river, lamp, garden = seen
    ids = bundle.tokenizer.ids("river in the garden")
    assert len(ids) == len(river) == 4
    assert [np.array_equal(*pair) for pair in zip(river, lamp, strict=True)] == [
        False,
        False,  # another word before it
        True,
        True,
    ]
    assert np.array_equal(garden[2], river[3])
    assert not np.allclose(garden[0], garden[2], atol=1e-3)


def test_a_retry_sends_the_same_bytes_under_the_same_id(device: Parts, cloud: StubCloud) -> None:
    cloud.lose_queries = 2
    device.embedder.embed(embed_request())
    assert len(cloud.queries) == 3
    assert len({q.SerializeToString(deterministic=True) for q in cloud.queries}) == 1
    assert device.ledger.spending().spent == pytest.approx(4 * 15.0)


def test_a_stream_survives_lost_connections_with_the_same_bytes(
    device: Parts, cloud: StubCloud
) -> None:
    texts = ["river " * n for n in range(1, 61)]
    answers = device.embedder.embed_stream(embed_stream(*map(embed_request, texts)))
    seen = []
    for answer in answers:
        seen.append(answer.request_id)
        if len(seen) in (5, 20):
            cloud.lose_queries = 1
    assert seen == [str(n) for n in range(60)]
    sent: dict[str, set[bytes]] = {}
    for query in cloud.queries:
        sent.setdefault(query.request_id, set()).add(query.vectors)
    assert len(sent) == 60
    assert all(len(versions) == 1 for versions in sent.values())
    assert device.ledger.spending().releases == 60


def test_the_ledger_refuses_before_anything_leaves(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, cloud: StubCloud
) -> None:
    with _device(
        tmp_path,
        small_bundle_folder,
        lexicon_tagger,
        SOTTO_CLOUD_ADDRESS=cloud.address,
        SOTTO_PRIVACY_LEDGER_LIMIT="125",
    ) as device:
        device.embedder.embed(embed_request())
        device.embedder.embed(embed_request("the pond in winter"))
        with pytest.raises(QuotaExceeded, match="ledger"):
            device.embedder.embed(embed_request("river"))
        with pytest.raises(QuotaExceeded, match="ledger"):
            list(device.embedder.embed_stream(embed_stream(embed_request("river"))))
        assert len(cloud.queries) == 2
        assert device.ledger.spending().spent == pytest.approx(120)
        assert device.embedder.embed(embed_request(local=True)).tokens == 4


def test_local_needs_no_cloud_and_costs_nothing(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("grpc.insecure_channel", refuse)
    monkeypatch.setattr("grpc.secure_channel", refuse)
    with _device(
        tmp_path, small_bundle_folder, lexicon_tagger, SOTTO_CLOUD_ADDRESS="127.0.0.1:1"
    ) as device:
        answer = device.embedder.embed(embed_request(local=True))
        assert (answer.level, answer.eta, answer.tokens) == ("", 0.0, 4)
        assert row(answer) == pytest.approx(row(device.embedder.embed(embed_request(local=True))))
        streamed = list(device.embedder.embed_stream(embed_stream(embed_request(local=True))))
        assert row(streamed[0].response) == pytest.approx(row(answer))
        assert device.ledger.spending().releases == 0


def test_local_and_asked_for_answers_share_a_stream_in_order(
    device: Parts, cloud: StubCloud
) -> None:
    asked = [embed_request(f"river {n}", local=n % 3 == 0) for n in range(100)]
    answers = list(device.embedder.embed_stream(embed_stream(*asked)))
    assert [a.request_id for a in answers] == [str(n) for n in range(100)]
    assert [a.response.level == "" for a in answers] == [n % 3 == 0 for n in range(100)]
    assert len(cloud.queries) == 66


def test_without_a_cloud_nothing_is_charged(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with _device(tmp_path, small_bundle_folder, lexicon_tagger) as device:
        for ask in (
            lambda: device.embedder.embed(embed_request()),
            lambda: list(device.embedder.embed_stream(embed_stream(embed_request()))),
        ):
            with pytest.raises(NotReady, match=r"cloud\.address"):
                ask()
        assert device.ledger.spending().releases == 0


def test_a_cloud_that_is_gone_is_unavailable(device: Parts, cloud: StubCloud) -> None:
    cloud.stop()
    with pytest.raises(Unavailable):
        device.embedder.embed(embed_request())
    with pytest.raises(Unavailable):
        list(device.embedder.embed_stream(embed_stream(embed_request())))


def test_a_bundle_without_a_denoiser_says_so_and_charges_nothing(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, cloud: StubCloud
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CLOUD_ADDRESS=cloud.address)
    with opened(config, lexicon_tagger) as device:
        for request in (embed_request(), embed_request(local=True)):
            with pytest.raises(NotReady, match="denoiser"):
                device.embedder.embed(request)
        assert device.ledger.spending().releases == 0
        assert cloud.queries == []


@pytest.mark.parametrize(
    ("text", "level", "kind", "subject"),
    [
        (" ", "", InvalidInput, "text"),
        ("a\0b", "", InvalidInput, "text"),
        ("x" * (1 << 20) + "y", "", InvalidInput, "text"),
        ("\u200b", "", InvalidInput, "text"),
        (TEXT, "extreme", NotFound, "level"),
    ],
)
def test_what_cannot_be_embedded_is_refused_uncharged(
    device: Parts, text: str, level: str, kind: type[SottovoceError], subject: str
) -> None:
    with pytest.raises(kind) as caught:
        device.embedder.embed(embed_request(text, level))
    assert caught.value.subject == subject
    assert caught.value.fix
    assert device.ledger.spending().releases == 0


def test_a_long_text_is_cut_and_that_is_told(device: Parts, cloud: StubCloud) -> None:
    answer = device.embedder.embed(embed_request("river " * (LONGEST + 90)))
    assert (answer.tokens, answer.truncated) == (LONGEST, True)
    assert cloud.queries[0].tokens == LONGEST
    assert device.ledger.spending().spent == pytest.approx(LONGEST * 15.0)


@pytest.mark.parametrize("answer", [[0.5] * 15, [float("nan")] * 16, []])
def test_an_answer_that_is_no_embedding_is_not_passed_on(
    device: Parts, cloud: StubCloud, monkeypatch: pytest.MonkeyPatch, answer: list[float]
) -> None:
    monkeypatch.setattr(cloud, "embedding", lambda *_: answer)
    with pytest.raises(SottovoceError, match="no embedding"):
        device.embedder.embed(embed_request())


def _resident() -> int:
    """Bytes of memory this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_stream_of_10000_texts_holds_memory_flat(device: Parts) -> None:
    """Every tenth goes through the stub cloud, which keeps it."""
    requests = (
        agent.EmbedStreamRequest(request=embed_request(f"river {n} winter", local=n % 10 > 0))
        for n in range(10_000)
    )
    settled = 0
    for number, _ in enumerate(device.embedder.embed_stream(requests)):
        if number == 2_000:
            settled = _resident()
    assert number == 9_999
    # 8,000 texts, tokens and embeddings would be over 10 MB; the stub cloud's record is under 1.
    assert _resident() - settled < 6 << 20


def test_apps_get_embeddings_and_errors_over_the_socket(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    cloud: StubCloud,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(predict, "_open_denoiser", PlainDenoiser)
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CLOUD_ADDRESS=cloud.address)
    with running(config, lexicon_tagger) as address, grpc.insecure_channel(address) as channel:
        app = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)
        answer = app.Embed(embed_request(level="light"))
        assert (len(answer.embedding), answer.eta) == (16, 10_000.0)
        asked = embed_stream(embed_request(level="light"), embed_request(local=True))
        streamed = list(app.EmbedStream(asked))
        assert [(a.request_id, a.response.level) for a in streamed] == [("0", "light"), ("1", "")]
        # 10,000 is hardly any noise: the same vectors, hence the same answer.
        assert row(streamed[0].response) == pytest.approx(row(answer), abs=1e-2)
        for ask in (app.Embed, lambda request: list(app.EmbedStream(embed_stream(request)))):
            with pytest.raises(grpc.RpcError) as caught:
                ask(embed_request(" "))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            error = from_rpc_error(caught.value, peer="agent")
            assert (error.problem, error.subject) == ("the text is empty", "text")


def test_the_shipped_denoiser_embeds_meaning_without_a_cloud(
    tmp_path: Path, bundle_folder: Path
) -> None:
    config = configured(tmp_path, bundle=bundle_folder)
    with closing(Parts(config)) as device:
        one, like, unlike = (
            row(device.embedder.embed(embed_request(text, local=True)))
            for text in (
                "The boiler is leaking, please send someone.",
                "Water is coming out of the heating.",
                "The orchestra played the second symphony.",
            )
        )
    assert len(one) == 384
    assert one @ like > one @ unlike + 0.2


def test_a_new_bundle_brings_its_own_denoiser(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    made: list[str] = []

    def opener(bundle: Bundle) -> PlainDenoiser:
        made.append(bundle.id)
        return PlainDenoiser(bundle)

    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        embedder = Embedder(
            device.engine, device.store, device.ledger, device.cloud, "balanced", opener
        )
        for _ in range(3):
            embedder.embed(embed_request(local=True))
        assert len(made) == 1
        manifest = (small_bundle_folder / "manifest.json").read_bytes()
        other = Path(shutil.copytree(small_bundle_folder, tmp_path / "other"))
        (other / "manifest.json").write_bytes(manifest + b"\n")
        config.bundle.current.unlink()
        config.bundle.current.symlink_to(other)
        embedder.embed(embed_request(local=True))
        assert len(set(made)) == len(made) == 2
