"""The privacy space follows the design, and treats rare words rightly."""

import numpy as np
import pytest
import scipy.linalg
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.models import space


def _all(rows: NDArray[np.floating]) -> NDArray[np.bool_]:
    return np.ones(len(rows), np.bool_)


def test_neighbours_are_those_of_the_largest_cosine() -> None:
    embeddings = np.random.default_rng(3).standard_normal((90, 5)).astype(np.float32)
    near = space.neighbours(embeddings, _all(embeddings), map)

    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    assert near.shape == (90, 9)  # a tenth of the words, as they are few
    expected = np.sort(np.argsort(-cosines, axis=1)[:, :9], axis=1)
    np.testing.assert_array_equal(np.sort(near, axis=1), expected)


def test_directions_maximise_spread_for_that_of_neighbours() -> None:
    random = np.random.default_rng(0)
    embeddings = random.standard_normal((500, 6)) * [5, 4, 3, 2, 1, 0.5]
    counts = random.zipf(1.5, 500).clip(max=1_000).astype(float)
    near = space.neighbours(embeddings.astype(np.float32), _all(embeddings), map)
    fitted = space.fit(embeddings.astype(np.float32), counts, near, _all(embeddings), 3)

    weights = (counts + 0.5) ** 0.7
    mean = np.average(embeddings, axis=0, weights=weights)
    between = np.cov(embeddings.T, aweights=weights, bias=True)
    apart = embeddings - embeddings[near].mean(axis=1)
    within = (apart.T * weights / weights.sum()) @ apart
    within += np.eye(6) * np.trace(within) / 6
    values = scipy.linalg.eigh(between, within, eigvals_only=True)[::-1]
    v = fitted.components
    np.testing.assert_allclose(fitted.mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(v.T @ within @ v, np.eye(3), atol=1e-5)
    np.testing.assert_allclose(v.T @ between @ v, np.diag(values[:3]), rtol=1e-4, atol=1e-4)


def test_what_neighbours_share_comes_first() -> None:
    """Pairs of words alike in the first direction only, though the second is as wide."""
    random = np.random.default_rng(4)
    embeddings = random.standard_normal((200, 3)).astype(np.float32)
    embeddings[1::2, 0] = embeddings[::2, 0]
    near = (np.arange(200, dtype=np.int32) ^ 1)[:, None]
    first = space.fit(embeddings, np.ones(200), near, _all(embeddings), 2).components[:, 0]

    assert abs(first[0]) > 0.9 * np.linalg.norm(first)


def test_frequency_decides_the_directions() -> None:
    """Words along two axes: the axis of the common ones comes first."""
    embeddings = np.zeros((400, 4), np.float32)
    embeddings[:200, 0] = np.tile([1, -1], 100)
    embeddings[200:, 1] = np.tile([1.2, -1.2], 100)
    near = (np.arange(400, dtype=np.int32) ^ 2)[:, None]  # a word of the same place
    counts = np.where(np.arange(400) < 200, 100.0, 1.0)

    for met, axis in ((counts, 0), (np.ones(400), 1)):
        first = space.fit(embeddings, met, near, _all(embeddings), 2).components[:, 0]
        assert abs(first[axis]) > 0.99 * np.linalg.norm(first)


def test_signs_are_fixed() -> None:
    embeddings = np.random.default_rng(1).standard_normal((100, 5)).astype(np.float32)
    near = space.neighbours(embeddings, _all(embeddings), map)
    components = space.fit(embeddings, np.ones(100), near, _all(embeddings), 4).components

    assert (components[np.abs(components).argmax(axis=0), range(4)] > 0).all()


def test_the_rarer_a_word_the_nearer_its_neighbours() -> None:
    random = np.random.default_rng(5)
    projected = random.standard_normal((300, 6)).astype(np.float32)
    near = random.integers(0, 300, (300, 20)).astype(np.int32)
    counts = np.full(300, 1_000.0)
    counts[:4] = np.inf, 1e6, 100, 0
    rows = space.place(projected, counts, near, _all(projected))

    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    before = projected / np.linalg.norm(projected, axis=1, keepdims=True)
    moved = np.linalg.norm(rows - before, axis=1)[:4]
    assert moved[0] < 1e-6
    assert (np.diff(moved) > 0).all()
    mean = before[near[3]].mean(axis=0)  # a word never met is where its neighbours are
    np.testing.assert_allclose(rows[3], mean / np.linalg.norm(mean), atol=0.02)


def test_tokens_take_the_direction_of_their_word() -> None:
    projected = np.array([[2, 0], [0, 3], [1, 1], [4, 0]], np.float32)
    rows = np.array([[0, 1], [0.6, 0.8]], np.float32)
    table = space.on_tokens(projected, rows, ((3,), (0, 1)))

    np.testing.assert_array_equal(table[:3], projected[:3])  # pieces, and tokens of no word
    np.testing.assert_allclose(table[3], [0, 4])


def test_words_outside_the_basis_move_no_others() -> None:
    random = np.random.default_rng(6)
    embeddings = random.standard_normal((300, 8)).astype(np.float32)
    counts = random.zipf(1.5, 300).astype(float)
    basis = np.ones(300, np.bool_)
    basis[200:290] = False

    def rows(
        embeddings: Floats2d, counts: NDArray[np.float64], basis: NDArray[np.bool_]
    ) -> Floats2d:
        near = space.neighbours(embeddings, basis, map)
        projection = space.fit(embeddings, counts, near, basis, 4)
        return space.place(projection(embeddings), counts, near, basis)

    longer = rows(embeddings, counts, basis)
    own = rows(embeddings[basis], counts[basis], np.ones(210, np.bool_))
    np.testing.assert_array_equal(longer[basis], own)
    np.testing.assert_allclose(np.linalg.norm(longer, axis=1), 1, atol=1e-6)
    assert basis[space.neighbours(embeddings, basis, map)].all()


@pytest.mark.parametrize("r", [0, 1, 6])
def test_dimensions_must_fit(r: int) -> None:
    rows = np.zeros((10, 5), np.float32)
    with pytest.raises(InvalidInput, match="between 2 and 5"):
        space.fit(rows, np.ones(10), np.zeros((10, 1), np.int32), _all(rows), r)


def test_replacements_keep_meaning(bundle: Bundle) -> None:
    """The nearest neighbours of some words are words of their kind."""
    for word, kind in {
        "monday": {"tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"},
        "diabetes": {"hepatitis", "influenza", "malaria", "fever", "insulin", "obesity", "disease"},
        "doctor": {"physician", "nurse", "dr", "doctors", "surgeon", "medical", "psychiatrist"},
    }.items():
        near = np.argsort(-(bundle.space @ bundle.space[bundle.word_ids[word]]))[1:9]
        assert {bundle.words[place] for place in near} & kind


def test_the_bundles_rows_and_tokens_agree(bundle: Bundle) -> None:
    """A listed word that is one token has the direction of that token."""
    lengths = np.linalg.norm(bundle.space, axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-5)
    for word in ("paris", "of", "zombies", "$"):
        tokens = bundle.tokenizer.ids(word)
        mean = bundle.tokens[tokens].mean(axis=0)
        np.testing.assert_allclose(
            bundle.space[bundle.word_ids[word]], mean / np.linalg.norm(mean), atol=1e-5
        )
