"""Runs the name finder's network, with NumPy alone.

Why it is here: two streams meet in it, and each has less to do than a general runtime would. What
the first layer makes of a listed word is in the bundle, and what it makes of a look in a table.
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
"""Under the root of a layer normalisation, as in the file."""

_FARTHEST: Final = 64
"""Words that one layer may reach to either side; what it pads grows with that."""


@dataclass(frozen=True)
class _Layer:
    """A linear layer, normalised, and what is below zero cut off.

    Its outputs have their mean taken off in the weights already, so that nobody needs to take it
    off the sum.
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
        """The layer's output from its inputs times `weight`: Floats2d (n, width), in place."""
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
        """What onnxruntime answers to the same call, but for the last bits.

        Args:
            inputs: "rows" Ints2d (n, features * HASHES), of the table; "looks" Ints1d (n,).

        Returns:
            The one output, Floats2d (n, kinds), scores of each word.
        """
        return [self.scores(self._features(inputs["rows"]) @ self._mix.weight, inputs["looks"])]

    def first(self, rows: NDArray[np.int32], features: Sequence[int]) -> _Floats:
        """What the first layer makes of some features of words: Floats2d (n, width).

        Word by word: in a larger product the last bits depend on where in it a word stands.

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
        """Scores of consecutive words: Floats2d (n, kinds).

        Args:
            first: what the first layer makes of all of their features, added up; it is used up.
            looks: Ints1d (n,).
        """
        width = first.shape[1]
        joint = self._around(looks) @ self._join.weight[width:]
        joint += self._mix.ended(first) @ self._join.weight[:width]
        scores: _Floats = self._join.ended(joint) @ self._out
        scores += self._out_bias
        return scores

    def _features(self, rows: NDArray[np.int32]) -> _Floats:
        """Floats2d (n, features * width) of words, the hashes of each feature added up."""
        first, *others = (
            _scaled(self._table.take(each, axis=0), self._scale.take(each, axis=0))
            for each in np.moveaxis(rows.reshape(len(rows), -1, HASHES), 2, 0)
        )
        for other in others:
            first += other
        return first.reshape(len(rows), -1)

    def _around(self, looks: NDArray[np.int32]) -> _Floats:
        """What the looks of a word and its neighbours say: Floats2d (n, width)."""
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
    """Weights from whole numbers of one byte."""
    return np.multiply(whole, scale, dtype=np.float32)
