"""Runs the name finder's network, with NumPy alone.

Two streams meet in the network, and much can be computed in advance, which a general runtime would
not do. The first layer's output for a listed word is in the bundle, and its output for a look is in
a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.text.tagger import HASHES

__all__ = ["NameNetwork"]

_Floats = NDArray[np.float32]

_EPSILON: Final = np.float32(1e-5)
"""The epsilon under the root of a layer normalisation, as in the file."""

_FARTHEST: Final = 64
"""The most words that one layer may reach to either side; padding grows with this number."""


@dataclass(frozen=True)
class _Layer:
    """A linear layer with normalisation and ReLU.

    Its weights are stored with the mean of the outputs already subtracted, so the sum needs no
    further subtraction.
    """

    weight: _Floats
    bias: _Floats
    gain: _Floats
    shift: _Floats

    @classmethod
    def of(cls, stored: Mapping[str, NDArray[Any]], name: str, norm: str) -> _Layer:
        weight, bias = _linear(stored, name)
        weight -= weight.mean(axis=1, keepdims=True)
        return cls(weight, bias - bias.mean(), stored[f"{norm}.gain"], stored[f"{norm}.shift"])

    def ended(self, product: _Floats) -> _Floats:
        """Return the layer's output from inputs times `weight`: Floats2d (n, width), in place."""
        product += self.bias
        squares = np.einsum("ij,ij->i", product, product)
        squares /= np.float32(product.shape[1])
        product /= np.sqrt(squares + _EPSILON)[:, None]
        product *= self.gain
        product += self.shift
        return np.maximum(product, 0, out=product)


class NameNetwork:
    """The network of `sottovoce.core.text.names`.

    Args:
        stored: the constants of ``names.onnx`` by name.

    Raises:
        ValueError, KeyError: these are not its constants.
    """

    def __init__(self, stored: Mapping[str, NDArray[Any]]) -> None:
        self._table, self._scale = stored["table.whole"], stored["table.scale"]
        self._mix = _Layer.of(stored, "mix", "mix_norm")
        self._look = _scaled(stored["look.whole"], stored["look.scale"])
        names = [name for name in stored if name.startswith("pad")]
        self._distances = [int(stored[name][0]) for name in names]
        if not all(0 < distance <= _FARTHEST for distance in self._distances):
            raise ValueError("pad")
        self._layers = [
            _Layer.of(stored, f"layer{i}", f"norm{i}") for i in range(len(self._distances))
        ]
        self._threes = [np.split(layer.weight, 3) for layer in self._layers]
        # Beyond the ends of a text is a look of zeros, after all others.
        looks = np.vstack([self._look, np.zeros_like(self._look[:1])])
        self._first = [looks @ part for part in self._threes[0]]
        self._join = _Layer.of(stored, "join", "join_norm")
        self._out, self._out_bias = _linear(stored, "out")

    def run(self, _: None, inputs: Mapping[str, NDArray[np.int32]]) -> list[_Floats]:
        """Return the same result as onnxruntime, except for the last bits.

        Args:
            inputs: "rows" Ints2d (n, features * HASHES), of the table; "looks" Ints1d (n,).

        Returns:
            The one output, Floats2d (n, kinds), scores of each word.
        """
        return [self.scores(self._features(inputs["rows"]) @ self._mix.weight, inputs["looks"])]

    def first(self, rows: NDArray[np.int32], features: Sequence[int]) -> _Floats:
        """Return the first layer's output for some features of words: Floats2d (n, width).

        It goes word by word, because in a larger product the last bits depend on a word's position.

        Args:
            rows: Ints2d (n, features * HASHES), of the table.
            features: their places among all.
        """
        width = self._table.shape[1]
        columns = [place * width + each for place in features for each in range(width)]
        weight = np.ascontiguousarray(self._mix.weight[columns])
        found = np.empty((len(rows), weight.shape[1]), np.float32)
        for place, row in enumerate(self._features(rows)):
            found[place] = row @ weight
        return found

    def scores(self, first: _Floats, looks: NDArray[np.int32]) -> _Floats:
        """Return the scores of consecutive words: Floats2d (n, kinds).

        Args:
            first: the first layer's outputs for all features, added up; it is overwritten.
            looks: Ints1d (n,).
        """
        width = first.shape[1]
        joint = self._around(looks) @ self._join.weight[width:]
        joint += self._mix.ended(first) @ self._join.weight[:width]
        scores: _Floats = self._join.ended(joint) @ self._out
        scores += self._out_bias
        return scores

    def _features(self, rows: NDArray[np.int32]) -> _Floats:
        """Return Floats2d (n, features * width) of words, the hashes of each feature added up."""
        first, *others = (
            _scaled(self._table.take(each, axis=0), self._scale.take(each, axis=0))
            for each in np.moveaxis(rows.reshape(len(rows), -1, HASHES), 2, 0)
        )
        for other in others:
            first += other
        return first.reshape(len(rows), -1)

    def _around(self, looks: NDArray[np.int32]) -> _Floats:
        """Return the contribution of a word's and its neighbours' looks: Floats2d (n, width)."""
        n, distance = len(looks), self._distances[0]
        padded = np.full(n + 2 * distance, len(self._look))
        padded[distance : distance + n] = looks
        before, itself, after = self._first
        product = itself.take(looks, axis=0)
        product += before.take(padded[:n], axis=0)
        product += after.take(padded[2 * distance :], axis=0)
        state: _Floats = self._look.take(looks, axis=0)
        state += self._layers[0].ended(product)
        for distance, layer, three in zip(
            self._distances[1:], self._layers[1:], self._threes[1:], strict=True
        ):
            before, itself, after = three
            inner = max(n - distance, 0)
            product = state @ itself
            product[distance:] += state[:inner] @ before
            product[:inner] += state[distance:] @ after
            state += layer.ended(product)
        return state


def _linear(stored: Mapping[str, NDArray[Any]], name: str) -> tuple[_Floats, _Floats]:
    return _scaled(stored[f"{name}.whole"], stored[f"{name}.scale"]), stored[f"{name}.bias"]


def _scaled(whole: NDArray[np.int8], scale: _Floats) -> _Floats:
    """Return weights from whole numbers of one byte."""
    return np.multiply(whole, scale, dtype=np.float32)
