"""The paper's two-layer head over embeddings (Split-and-Denoise, appendix A.5.1).

A device with embeddings could train it by itself: texts leave as noisy vectors at most, and labels
never leave. Training needs numpy and a second or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.noise import Floats2d

_STEPS: Final = 150
_DECAY: Final = 0.1
_RATE: Final = 2e-3


@dataclass(frozen=True)
class Classifier:
    """Maps embeddings to labels: softmax(relu(e w1 + b1) w2 + b2).

    Attributes:
        labels: in the order of the scores.
        w1, b1: Floats2d (width, hidden), Floats1d (hidden,).
        w2, b2: Floats2d (hidden, labels), Floats1d (labels,).
    """

    labels: tuple[str, ...]
    w1: NDArray[np.float32]
    b1: NDArray[np.float32]
    w2: NDArray[np.float32]
    b2: NDArray[np.float32]

    @classmethod
    def fit(
        cls, embeddings: Floats2d, labels: Sequence[str], *, hidden: int = 64, seed: int = 0
    ) -> Self:
        """Train on ``embeddings`` Floats2d (n, width), with one label for each row.

        All rows are in memory at once. Training minimises cross-entropy with Adam and decoupled
        weight decay. The same data gives the same classifier.

        Raises:
            InvalidInput: there are fewer than two labels, or not one label for each row.
        """
        names = tuple(sorted(set(labels)))
        if len(names) < 2 or len(labels) != len(embeddings):
            raise InvalidInput(
                "a classifier needs one label for each embedding, and two different ones at least",
                fix="check the labels",
                subject="labels",
            )
        wanted = np.eye(len(names), dtype=np.float32)[[names.index(label) for label in labels]]
        width = embeddings.shape[1]
        # Unit embeddings have entries of about width ** -.5; layers work best with inputs near 1.
        inputs = np.asarray(embeddings, np.float32) * np.float32(width**0.5)
        random = np.random.default_rng(seed)
        weights = [
            random.standard_normal((width, hidden)) / width**0.5,
            np.zeros(hidden),
            random.standard_normal((hidden, len(names))) / hidden**0.5,
            np.zeros(len(names)),
        ]
        weights = [each.astype(np.float32) for each in weights]
        first = [np.zeros_like(each) for each in weights]
        second = [np.zeros_like(each) for each in weights]
        for step in range(1, _STEPS + 1):
            for i, slope in enumerate(_slopes(weights, inputs, wanted)):
                first[i] += 0.1 * (slope - first[i])
                second[i] += 0.001 * (slope * slope - second[i])
                corrected = np.sqrt(second[i] / (1 - 0.999**step)) + 1e-8
                weights[i] *= 1 - _RATE * _DECAY * (weights[i].ndim == 2)
                weights[i] -= _RATE * first[i] / (1 - 0.9**step) / corrected
        weights[0] *= np.float32(width**0.5)
        return cls(names, *weights)

    def scores(self, embeddings: Floats2d) -> Floats2d:
        """Map Floats2d (n, width) to probabilities (n, labels), where rows sum to 1.

        Raises:
            InvalidInput: embeddings of another width.
        """
        if embeddings.ndim != 2 or embeddings.shape[1] != len(self.w1):
            raise InvalidInput(
                f"the classifier reads embeddings of width {len(self.w1)}",
                fix="train it again on embeddings of this bundle",
                subject="embeddings",
            )
        found: Floats2d = _softmax(
            np.maximum(embeddings @ self.w1 + self.b1, 0) @ self.w2 + self.b2
        )
        return found

    def predict(self, embeddings: Floats2d) -> list[str]:
        """Return the likeliest label of each row."""
        return [self.labels[place] for place in self.scores(embeddings).argmax(axis=1)]


def _slopes(
    weights: list[NDArray[np.float32]], inputs: Floats2d, wanted: Floats2d
) -> list[NDArray[np.float32]]:
    """Return gradients of the mean cross-entropy."""
    w1, b1, w2, b2 = weights
    states = np.maximum(inputs @ w1 + b1, 0)  # (n, hidden)
    wrong = (_softmax(states @ w2 + b2) - wanted) / np.float32(len(inputs))  # (n, labels)
    back = (wrong @ w2.T) * (states > 0)
    return [inputs.T @ back, back.sum(axis=0), states.T @ wrong, wrong.sum(axis=0)]


def _softmax(logits: Floats2d) -> Floats2d:
    shares: Floats2d = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
