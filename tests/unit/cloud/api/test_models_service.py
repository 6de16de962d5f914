"""A tenant's device computes the cloud's answers; other tenants get nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from sottovoce.cloud.api import models_service
from sottovoce.cloud.config import Settings
from sottovoce.core.bundle.adapter import LocalAdapter
from sottovoce.core.bundle.encoder import Encoder
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import ConfigError, NotReady
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.v1 import inference_pb2
from sottovoce.v1 import training_pb2 as wire
from tests.support.backbones import tiny_bert
from tests.support.caller import Caller
from tests.support.cloud import Cloud, cloud
from tests.support.encoder_bundle import with_encoder
from tests.support.examples import examples

METHODS = {
    "head": wire.METHOD_HEAD,
    "lora": wire.METHOD_LORA,
    "prompt": wire.METHOD_PROMPT_TUNING,
    "prefix": wire.METHOD_PREFIX_TUNING,
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A cloud that hands out the adapters of the tenant "acme" alone."""
    root = tmp_path_factory.mktemp("cloud")
    bert = tiny_bert(root / "bert")
    bundle = with_encoder(root / "bundle", bert)
    settings = Settings(
        root / "state", (bundle,), f"unix:{root}/s.sock", str(bert), hand_out_adapters=("acme",)
    )
    with cloud(settings) as started:
        yield started


@pytest.fixture(scope="module")
def acme(running: Cloud) -> Iterator[Caller]:
    """A tenant with an adapter of every method, by its name."""
    with running.caller("acme") as caller:
        for name, method in (METHODS | {"full": wire.METHOD_FULL_FINE_TUNING}).items():
            training = {"method": method, "epochs": 2}
            caller.submit(running.bundle_id, examples(24), adapter=name, training=training)
        running.work()
        yield caller


def fetched(caller: Caller, name: str, folder: Path) -> LocalAdapter:
    request = wire.GetAdapterRequest(adapter=name)
    parts = caller.training.GetAdapter(request, metadata=caller.metadata)
    (folder / name).write_bytes(b"".join(part.chunk for part in parts))
    return LocalAdapter.read(folder / name)


@pytest.mark.parametrize("name", METHODS)
def test_device_and_cloud_answer_alike(
    running: Cloud, acme: Caller, name: str, tmp_path: Path
) -> None:
    encoder = Encoder.load(Bundle.open(running.settings.bundles[0]))
    adapter = fetched(acme, name, tmp_path)
    adapter.check(encoder.shape)
    for example in examples(6):
        request = inference_pb2.InferenceServicePredictRequest(
            adapter=name, released_text=example.text, bundle_id=running.bundle_id
        )
        answer = acme.inference.Predict(request, metadata=acme.metadata)
        scores = dict(adapter.scores(encoder, example.text))
        assert set(scores) == {score.label for score in answer.scores}
        for score in answer.scores:
            assert scores[score.label] == pytest.approx(score.probability, abs=0.02)


def test_a_backbone_of_its_own_stays(acme: Caller, tmp_path: Path) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        fetched(acme, "full", tmp_path)
    error = from_rpc_error(caught.value, peer="the cloud")
    assert isinstance(error, NotReady)
    assert "--where cloud" in error.fix


def test_what_is_too_large_for_devices_stays(
    acme: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models_service, "LARGEST_ADAPTER", 1_000)
    with pytest.raises(grpc.RpcError) as caught:
        fetched(acme, "lora", tmp_path)
    error = from_rpc_error(caught.value, peer="the cloud")
    assert isinstance(error, NotReady)
    assert "lower rank" in error.fix


def test_without_the_providers_leave_nothing_goes(running: Cloud, tmp_path: Path) -> None:
    with running.caller("another") as another, pytest.raises(grpc.RpcError) as caught:
        fetched(another, "lora", tmp_path)
    error = from_rpc_error(caught.value, peer="the cloud")
    assert isinstance(error, NotReady)
    assert "--hand-out-adapters" in error.fix


def test_leave_is_given_by_name() -> None:
    with pytest.raises(ConfigError, match="names no tenant"):
        Settings(Path("state"), (), hand_out_adapters=("Acme Ltd",))
