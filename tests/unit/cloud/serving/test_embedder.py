"""Queries answered together are answered as each alone, whatever else the model does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.serving.predictor import Embedder, Predictor
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.cloud.training.trainer import train
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.privacy.vectors import unit_rows
from tests.support.backbones import tiny_bert
from tests.support.examples import examples
from tests.support.tiny_bundle import tiny_bundle


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("backbones") / "bert")


@pytest.fixture(scope="module")
def tiny(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return Bundle.open(tiny_bundle(tmp_path_factory.mktemp("bundles") / "tiny", bert))


@contextmanager
def serving(folder: Path, *bundles: Bundle) -> Iterator[tuple[Embedder, Predictor]]:
    with closing(ModelThread(backbone.load(str(folder)))) as thread:
        yield Embedder(thread, {b.id: b for b in bundles}), Predictor(thread)


class Query(NamedTuple):
    bundle_id: str
    noisy: np.ndarray
    eta: float


def queries(bundle: Bundle, lengths: list[int], etas: tuple[float, ...]) -> list[Query]:
    random = np.random.default_rng(3)
    units = unit_rows(bundle.tokens)
    made = []
    for place, length in enumerate(lengths):
        eta = etas[place % len(etas)]
        ids = random.integers(0, len(units), length)
        noise = random.normal(size=(length, units.shape[1])) / eta
        made.append(Query(bundle.id, (units[ids] + noise).astype(np.float32), eta))
    return made


def expected(folder: Path, bundle: Bundle, query: Query) -> np.ndarray:
    """The definition, in float64 as far as the backbone: softmax(log p - eta d) E, encoded."""
    loaded = backbone.load(str(folder))
    units = unit_rows(bundle.tokens).astype(np.float64)
    prior = np.load(bundle.folder / "token_prior.npy")
    distance = np.linalg.norm(query.noisy[:, None] - units[None], axis=2)
    weights = np.exp(prior - query.eta * distance)
    weights /= weights.sum(axis=1, keepdims=True)
    means = weights @ backbone.input_embeddings(loaded).astype(np.float64)
    return Encoder(loaded).encode([torch.tensor(means, dtype=torch.float32)])[0].numpy()


def test_a_mixed_batch_is_answered_as_the_definition_says(bert: Path, tiny: Bundle) -> None:
    asked = queries(tiny, [1, 7, 3, 120, 2, 33], (5.0, 40.0))
    with serving(bert, tiny) as (embedder, _):
        answers = [embedder.submit(*query) for query in asked]
        for query, answer in zip(asked, answers, strict=True):
            found = answer.result(60)
            assert found.dtype == np.float32
            assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)
            assert found == pytest.approx(expected(bert, tiny, query), abs=2e-4)


def test_adapters_in_memory_do_not_colour_embeddings(
    bert: Path, tiny: Bundle, tmp_path: Path
) -> None:
    options = TrainingOptions(epochs=1, batch_size=8, learning_rate=5e-2)
    loaded = backbone.load(str(bert))
    trained = train(examples(16), options, loaded, tmp_path / "adapter")
    files = AdapterFiles.of(trained.folder)
    (query,) = queries(tiny, [6], (20.0,))
    with serving(bert, tiny) as (embedder, predictor):
        before = embedder.submit(*query).result(60)
        scores = dict(predictor.submit(files, "the tree and the soil").result(60))
        assert embedder.submit(*query).result(60) == pytest.approx(before, abs=1e-6)
        # ... and the adapter is back in its place afterwards.
        again = dict(predictor.submit(files, "the tree and the soil").result(60))
        assert again == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize("family", ["tiny_decoder", "tiny_encoder_decoder"])
def test_other_families_are_served_alike(
    family: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(family)
    bundle = Bundle.open(tiny_bundle(tmp_path / "bundle", folder))
    asked = queries(bundle, [4, 9], (25.0,))
    with serving(folder, bundle) as (embedder, _):
        for query, answer in [(query, embedder.submit(*query)) for query in asked]:
            found = expected(folder, bundle, query)
            assert answer.result(60) == pytest.approx(found, abs=2e-4)


def test_a_bundle_without_frequencies_fails_alone(bert: Path, tiny: Bundle) -> None:
    files = {name: file for name, file in tiny.manifest.files.items() if name != "token_prior.npy"}
    manifest = dataclasses.replace(tiny.manifest, files=files)
    old = Bundle(tiny.folder, manifest, "old")
    good, bad = queries(tiny, [3], (20.0,)) + queries(old, [3], (20.0,))
    with serving(bert, tiny, old) as (embedder, _):
        answers = [embedder.submit(*query) for query in (bad, good, bad)]
        assert answers[1].result(60).shape == (32,)
        for answer in (answers[0], answers[2]):
            with pytest.raises(NotReady, match="token frequencies"):
                answer.result(60)


def test_more_tokens_than_positions_are_refused_at_once(bert: Path, tiny: Bundle) -> None:
    most, one_more = queries(tiny, [298, 299], (20.0,))
    with serving(bert, tiny) as (embedder, _):
        with pytest.raises(InvalidInput, match="298 tokens") as caught:
            embedder.submit(*one_more)
        assert caught.value.subject == "tokens"
        assert np.isfinite(embedder.submit(*most).result(60)).all()
