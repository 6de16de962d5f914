"""Which denoiser an embedder takes, and over which OpenAI endpoint apps get its answers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.tasks import predict
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.predict import Embedder
from sottovoce.v1 import edge_agent_pb2_grpc
from tests.support.agent import configured, opened, running
from tests.support.embedding import embed_request, embed_stream, row
from tests.support.plain_denoiser import PlainDenoiser
from tests.support.stub_cloud import StubCloud, stub_cloud


@pytest.fixture
def cloud(small_bundle_folder: Path) -> Iterator[StubCloud]:
    with stub_cloud(small_bundle_folder) as server:
        yield server


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
