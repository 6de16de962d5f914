"""The privacy space is what the design says, and it treats rare words as it should."""

import numpy as np
import pytest
from tokenizers import Tokenizer

from sottovoce.cloud.building import space
from sottovoce.edge.bundle import Bundle
from sottovoce.edge.errors import InvalidInput


def test_components_are_those_of_the_weighted_covariance() -> None:
    random = np.random.default_rng(0)
    embeddings = random.standard_normal((500, 6)) * [5, 4, 3, 2, 1, 0.5]
    counts = random.zipf(1.5, 500).clip(max=1_000).astype(float)
    fitted = space.fit(embeddings.astype(np.float32), counts, 3)

    weights = np.sqrt(counts + 0.5)
    mean = np.average(embeddings, axis=0, weights=weights)
    covariance = np.cov(embeddings.T, aweights=weights, bias=True)
    values = np.sort(np.linalg.eigvalsh(covariance))[::-1]
    np.testing.assert_allclose(fitted.mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fitted.components.T @ fitted.components, np.eye(3), atol=1e-9)
    spread = fitted.components.T @ covariance @ fitted.components
    np.testing.assert_allclose(spread, np.diag(values[:3]), rtol=1e-4, atol=1e-4)


def test_frequency_decides_the_components() -> None:
    """Words along two axes: the axis of the common ones comes first."""
    embeddings = np.zeros((400, 4), np.float32)
    embeddings[:200, 0] = np.tile([1, -1], 100)
    embeddings[200:, 1] = np.tile([1.2, -1.2], 100)
    counts = np.where(np.arange(400) < 200, 100.0, 1.0)

    assert abs(space.fit(embeddings, counts, 2).components[0, 0]) > 0.99
    assert abs(space.fit(embeddings, np.ones(400), 2).components[1, 0]) > 0.99


def test_signs_are_fixed() -> None:
    embeddings = np.random.default_rng(1).standard_normal((100, 5)).astype(np.float32)
    components = space.fit(embeddings, np.ones(100), 4).components

    assert (components[np.abs(components).argmax(axis=0), range(4)] > 0).all()


def test_unit_rows_have_length_one_whatever_they_were() -> None:
    rows = np.array([[3, 4], [0, 0], [1e-20, 0]], np.float32)

    np.testing.assert_allclose(space.unit_rows(rows), [[0.6, 0.8], [1, 0], [1, 0]], rtol=1e-6)


@pytest.mark.parametrize("r", [0, 1, 6])
def test_dimensions_must_fit(r: int) -> None:
    with pytest.raises(InvalidInput, match="between 2 and 5"):
        space.fit(np.zeros((10, 5), np.float32), np.ones(10), r)


def test_replacements_keep_meaning(bundle: Bundle) -> None:
    """The nearest neighbours of some words are words of their kind."""
    for word, kind in {
        "monday": {"tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"},
        "paris": {"berlin", "london", "rome", "france", "vienna", "brussels", "madrid", "lyon"},
        "doctor": {"physician", "nurse", "dr", "doctors", "surgeon", "medical", "psychiatrist"},
    }.items():
        near = np.argsort(-(bundle.space @ bundle.space[bundle.word_ids[word]]))[1:9]
        assert {bundle.words[place] for place in near} & kind


def test_the_bundles_rows_and_tokens_agree(bundle: Bundle) -> None:
    """A listed word has the direction of its token, as a word out of the list would."""
    lengths = np.linalg.norm(bundle.space, axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-5)
    tokenizer = Tokenizer.from_file(str(bundle.tokenizer_file))
    for word in ("paris", "of", "n't", "$"):
        tokens = tokenizer.encode(word, add_special_tokens=False).ids
        mean = bundle.tokens[tokens].mean(axis=0)
        np.testing.assert_allclose(
            bundle.space[bundle.word_ids[word]], mean / np.linalg.norm(mean), atol=1e-5
        )
