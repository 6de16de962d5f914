"""The two-layer head learns, and its gradients are right."""

from __future__ import annotations

import numpy as np
import pytest

from bench.classifier import Classifier, _slopes
from sottovoce.core.errors import InvalidInput

WIDTH = 24


def examples(n: int, seed: int) -> tuple[np.ndarray, list[str]]:
    """Return unit vectors labelled by the product of two signs, which no line separates."""
    rows = np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)
    rows[:, :2] *= 4
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, ["same" if a * b > 0 else "other" for a, b in rows[:, :2]]


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier.fit(*examples(600, 0))


def test_it_learns_what_a_line_cannot_tell(classifier: Classifier) -> None:
    rows, labels = examples(400, 1)
    right = np.mean(
        [found == label for found, label in zip(classifier.predict(rows), labels, strict=True)]
    )
    assert right > 0.85


def test_scores_are_probabilities_in_the_order_of_labels(classifier: Classifier) -> None:
    rows, _ = examples(20, 2)
    scores = classifier.scores(rows)
    assert classifier.labels == ("other", "same")
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)
    assert [classifier.labels[i] for i in scores.argmax(axis=1)] == classifier.predict(rows)


def test_gradients_are_those_of_the_loss() -> None:
    random = np.random.default_rng(3)
    weights = [random.standard_normal(shape) for shape in ((5, 4), (4,), (4, 3), (3,))]
    inputs = random.standard_normal((7, 5))
    wanted = np.eye(3)[random.integers(0, 3, 7)]

    def loss() -> float:
        logits = np.maximum(inputs @ weights[0] + weights[1], 0) @ weights[2] + weights[3]
        return float((np.log(np.exp(logits).sum(axis=1)) - (logits * wanted).sum(axis=1)).mean())

    for part, slopes in zip(weights, _slopes(weights, inputs, wanted), strict=True):
        place = tuple(0 for _ in part.shape)
        part[place] += 1e-5
        above = loss()
        part[place] -= 2e-5
        assert slopes[place] == pytest.approx((above - loss()) / 2e-5, abs=1e-4)
        part[place] += 1e-5


def test_labels_must_fit(classifier: Classifier) -> None:
    rows, labels = examples(10, 5)
    for given in (labels[:9], ["one"] * 10):
        with pytest.raises(InvalidInput):
            Classifier.fit(rows, given)
    with pytest.raises(InvalidInput):
        classifier.scores(rows[:, :5])
