"""Finds the names of persons, places and organisations, on the device.

A name has no neighbours in meaning to hide among, so it is replaced by a random one of its kind.
The list's readings know most names. "Rich", "Little Rock" and "Bank of America" are names only by
their context.

The network sees the word itself in full, as hashed features of its form. It sees only the `looks`
of the six words on either side, which the release shows anyway. So if a neighbour is exchanged for
a word with the same look, the result stays the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady, Remedy
from sottovoce.core.platform.memory import map_array
from sottovoce.core.platform.schema import Range, Sha256, decode, parse_object
from sottovoce.core.text.onnx_models import check, weights
from sottovoce.core.text.tagger import FEATURES, HASHES, FeatureSpec, Rows, shape
from sottovoce.core.text.word_classes import FIRST_WORD, LOOKS

_Floats = NDArray[np.float32]

_EPSILON: Final = np.float32(1e-5)
"""The epsilon under the root of a layer normalisation, as in the file."""

_FARTHEST: Final = 64
"""The most words that one layer may reach to either side; padding grows with this number."""


@dataclass(frozen=True)
class Layer:
    """A linear layer with normalisation and ReLU.

    Its weights are stored with the mean of the outputs already subtracted, so the sum needs no
    further subtraction.
    """

    weight: _Floats
    bias: _Floats
    gain: _Floats
    shift: _Floats

    @classmethod
    def of(cls, stored: Mapping[str, NDArray[Any]], name: str, norm: str) -> Layer:
        weight, bias = linear(stored, name)
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
    """The network of a `NameFinder`.

    Args:
        stored: the constants of ``names.onnx`` by name.

    Raises:
        ValueError, KeyError: these are not its constants.
    """

    def __init__(self, stored: Mapping[str, NDArray[Any]]) -> None:
        self._table, self._scale = stored["table.whole"], stored["table.scale"]
        self._mix = Layer.of(stored, "mix", "mix_norm")
        self._look = scaled(stored["look.whole"], stored["look.scale"])
        names = [name for name in stored if name.startswith("pad")]
        self._distances = [int(stored[name][0]) for name in names]
        if not all(0 < distance <= _FARTHEST for distance in self._distances):
            raise ValueError("pad")
        self._layers = [
            Layer.of(stored, f"layer{i}", f"norm{i}") for i in range(len(self._distances))
        ]
        self._threes = [np.split(layer.weight, 3) for layer in self._layers]
        # Beyond the ends of a text is a look of zeros, after all others.
        looks = np.vstack([self._look, np.zeros_like(self._look[:1])])
        self._first = [looks @ part for part in self._threes[0]]
        self._join = Layer.of(stored, "join", "join_norm")
        self._join_halves = np.split(self._join.weight, [self._mix.weight.shape[1]])
        self._out, self._out_bias = linear(stored, "out")
        by_feature = self._mix.weight.reshape(len(FEATURES), -1, self._mix.weight.shape[1])
        self._but_shape = by_feature[_BUT_SHAPE].reshape(-1, by_feature.shape[2])
        self._of_shape = by_feature[_SHAPE]

    def run(self, _: None, inputs: Mapping[str, NDArray[np.int32]]) -> list[_Floats]:
        """Return the same result as onnxruntime, except for the last bits.

        Args:
            inputs: "rows" Ints2d (n, features * HASHES), of the table; "looks" Ints1d (n,).

        Returns:
            The one output, Floats2d (n, kinds), scores of each word.
        """
        return [self.scores(self._features(inputs["rows"]) @ self._mix.weight, inputs["looks"])]

    def first(self, rows: NDArray[np.int32], *, shape: bool) -> _Floats:
        """Return the first layer's output for some features of words: Floats2d (n, width).

        It goes word by word, because in a larger product the last bits depend on a word's position.

        Args:
            rows: Ints2d (n, features * HASHES), of the table.
            shape: whether they are the rows of the shape alone, or of all other features.
        """
        weight = self._of_shape if shape else self._but_shape
        found = np.empty((len(rows), weight.shape[1]), np.float32)
        for row, output in zip(self._features(rows), found, strict=True):
            np.matmul(row, weight, out=output)
        return found

    def scores(self, first: _Floats, looks: NDArray[np.int32]) -> _Floats:
        """Return the scores of consecutive words: Floats2d (n, kinds).

        Args:
            first: the first layer's outputs for all features, added up; it is overwritten.
            looks: Ints1d (n,).
        """
        itself, around = self._join_halves
        joint = self._around(looks) @ around
        joint += self._mix.ended(first) @ itself
        scores: _Floats = self._join.ended(joint) @ self._out
        scores += self._out_bias
        return scores

    def _features(self, rows: NDArray[np.int32]) -> _Floats:
        """Return Floats2d (n, features * width) of words, the hashes of each feature added up."""
        return summed(self._table, self._scale, rows)

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


def linear(stored: Mapping[str, NDArray[Any]], name: str) -> tuple[_Floats, _Floats]:
    """Return a linear layer's weight and bias from the constants of a network."""
    return scaled(stored[f"{name}.whole"], stored[f"{name}.scale"]), stored[f"{name}.bias"]


def summed(table: NDArray[np.int8], scale: _Floats, rows: NDArray[np.int32]) -> _Floats:
    """Return Floats2d (n, features * width): rows of a table, the hashes of each feature added up.

    Args:
        table, scale: whole numbers of one byte, and what to multiply each row by.
        rows: Ints2d (n, features * HASHES), of the table.
    """
    found = scaled(table.take(rows[:, ::HASHES], axis=0), scale.take(rows[:, ::HASHES], axis=0))
    for place in range(1, HASHES):
        others = rows[:, place::HASHES]
        found += scaled(table.take(others, axis=0), scale.take(others, axis=0))
    return found.reshape(len(rows), -1)


def scaled(whole: NDArray[np.int8], scale: _Floats) -> _Floats:
    """Return weights from whole numbers of one byte."""
    return np.multiply(whole, scale, dtype=np.float32)


KINDS: Final = ("", "PERSON", "PLACE", "ORGANISATION", "OTHER")
"""Kinds of names; the empty kind is no name."""

FORMAT: Final = "names.v1"
LISTED: Final = "listed.npy"
"""The first layer's output for a bundle's first words, in the folder of its finder."""

WINDOW: Final = 520
"""Words in one run of the network, which bounds the memory, whatever the document's length.

It is half of the words that are decided at once, with the few words either side.
"""

_Scores = Callable[[slice, NDArray[np.int32]], NDArray[np.float32]]
"""Returns the network's scores of some consecutive words of a text, and of their looks."""

_SHAPE: Final = FEATURES.index("shape")
_PLAIN: Final = {
    shape: number
    for number, shape in enumerate(("", "x", "xx", "xxx", "X", "Xx", "Xxx", "Xxxx", "XX", "XXX"))
}
"""The shapes of most words."""
_BUT_SHAPE: Final = [place for place in range(len(FEATURES)) if place != _SHAPE]


@dataclass(frozen=True)
class Found:
    """The names found in a document, word by word."""

    kinds: NDArray[np.uint8]
    """(n_words,) positions in `KINDS`, 0 for a word that is not taken as a name."""
    probability: NDArray[np.float32]
    """(n_words,) probability of being a name of any kind, 0 to 1; 0 for marks and identifiers."""


@dataclass(frozen=True)
class _Description:
    """The content of `names.json`; the annotations are its schema.

    A word that is more likely a name than not must never pass, so no threshold is above one half.
    """

    kinds: tuple[str, ...]
    features: tuple[str, ...]
    hashes: int
    looks: int
    rows: Rows
    seed: Annotated[int, Range(0, (1 << 64) - 1)]
    reach: Annotated[int, Range(0, WINDOW)]
    thresholds: dict[str, Annotated[float, Range(1e-9, 0.5)]]
    sha256: Sha256


class NameFinder:
    """The name finder: `names.onnx` and its description `names.json` from one folder.

    Safe to share between threads.
    """

    def __init__(
        self,
        session: Any,
        spec: FeatureSpec,
        reach: int,
        thresholds: Sequence[float],
        listed: NDArray[np.float32] | None = None,
    ) -> None:
        self.reach = reach
        """How many words either side a word's kind may depend on, by their looks."""
        self._session = session
        self._spec = spec
        self._thresholds = np.array([0.0, *thresholds], np.float32)
        self._listed = None if listed is None else np.asarray(listed)  # read faster than a memmap

    @classmethod
    def load(cls, folder: Path, *, words: int = 0) -> Self:
        """Open the finder in `folder`.

        Args:
            folder: with ``names.onnx``, ``names.json`` and, in a bundle, `LISTED`.
            words: how many the bundle lists; 0 if `find` gets no ids.

        Raises:
            NotReady: the folder holds no name finder.
            BundleMismatch: it is of a format this version does not read.
            DataLoss: the files do not belong together, or one is damaged.
        """
        description, network = folder / "names.json", folder / "names.onnx"
        if not description.is_file() or not network.is_file():
            raise NotReady(
                f"no name finder in {folder}",
                fix=Remedy.GET_NAMES,
                subject="names",
            )
        model = network.read_bytes()
        try:
            form, raw = parse_object(description.read_bytes())
            if form != FORMAT:
                raise _another(folder)
            told = decode(_Description, raw, more=True)
            if (told.kinds, told.features, told.hashes, told.looks) != (
                KINDS,
                FEATURES,
                HASHES,
                LOOKS,
            ):
                raise _another(folder)
            if hashlib.sha256(model).hexdigest() != told.sha256:
                raise ValueError("sha256")
            spec = FeatureSpec(told.rows, told.seed)
            thresholds = [told.thresholds[kind] for kind in KINDS[1:]]
            check(memoryview(model))
            session = NameNetwork(weights(model))
            _try(session, sum(told.rows), told.reach)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise _damaged(folder, f"{error} in names.json does not fit") from None
        return cls(session, spec, told.reach, thresholds, _listed(folder / LISTED, words))

    @property
    def listed(self) -> int:
        """The number of words in the bundle's table, the first of its list."""
        return 0 if self._listed is None else len(self._listed)

    def of_listed(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the content of `LISTED` for a bundle: Floats2d (n, width).

        It is the first layer's output for each word, without the part that depends on the word's
        case.
        """
        rows = self._spec.rows_of(words).reshape(len(words), len(FEATURES), HASHES)
        kept = rows[:, _BUT_SHAPE].reshape(len(words), -1)
        return np.asarray(self._session.first(kept, shape=False))

    def find(
        self,
        words: Sequence[str],
        looks: NDArray[np.uint8],
        ids: NDArray[np.int32] | None = None,
    ) -> Found:
        """Return the names in consecutive words of one document.

        Args:
            words: their texts.
            looks: (n_words,) from `looks.looks`.
            ids: (n_words,) ids of words that are in the bundle's list but for their case, else -1.
                They only save time: the result does not depend on them.
        """
        if ids is not None:
            return self.among(self.alone(words, np.where(looks < FIRST_WORD, 0, ids)), looks)
        rows = self._spec.rows_of(words)
        return self._found(
            looks,
            lambda part, seen: self._session.run(None, {"rows": rows[part], "looks": seen})[0],
        )

    def alone(self, words: Sequence[str], ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the network's output for single words, for `among`.

        Args:
            words: their texts.
            ids: (n,) as for `find`.

        Returns:
            Floats2d (n, width).
        """
        if self._listed is None:
            first = self.of_listed(words)
        else:
            inside = ids < len(self._listed)
            first = self._listed[np.where(inside, ids, -1)]  # of -1 any
            if others := np.flatnonzero((ids < 0) | ~inside).tolist():
                first[others] = self.of_listed([words[place] for place in others])
        rows, numbers = self._plain, dict(_PLAIN)
        which = [numbers.setdefault(shape(word), len(numbers)) for word in words]
        if odd := [*numbers][len(_PLAIN) :]:
            rows = np.vstack([rows, self._of_shapes(odd)])
        first += rows[which]
        return first

    @cached_property
    def _plain(self) -> NDArray[np.float32]:
        return self._of_shapes([*_PLAIN])

    def _of_shapes(self, shapes: Sequence[str]) -> NDArray[np.float32]:
        """Return the part of the first layer's output that follows from words' shapes."""
        rows = self._spec.rows_of_feature(FEATURES.index("shape"), shapes)
        return np.asarray(self._session.first(rows, shape=True))

    def among(self, alone: NDArray[np.float32], looks: NDArray[np.uint8]) -> Found:
        """Return the same as `find`, for words with a known result of `alone`.

        Args:
            alone: (n_words, width) of each.
            looks: (n_words,) as for `find`.
        """
        return self._found(looks, lambda part, seen: self._session.scores(alone[part].copy(), seen))

    def _found(self, looks: NDArray[np.uint8], scores: _Scores) -> Found:
        """Run long documents in windows that overlap by the reach of the network.

        A window's number of words depends on the document's length alone. Each row of the network's
        arithmetic depends on that row alone. So a word's probability shows, to the last bit, no
        more of its neighbours than their looks.
        """
        kinds = np.zeros(len(looks), np.uint8)
        probability = np.zeros(len(looks), np.float32)
        seen = looks.astype(np.int32)
        for start in range(0, len(looks), WINDOW):
            end = min(start + WINDOW, len(looks))
            first = max(0, start - self.reach)
            part = slice(first, min(len(looks), end + self.reach))
            kinds[start:end], probability[start:end] = self._decide(
                scores(part, seen[part])[start - first : end - first]
            )
        none = looks < FIRST_WORD
        kinds[none], probability[none] = 0, 0
        return Found(kinds, probability)

    def _decide(self, logits: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the likeliest kind of name, where a name is likelier than its threshold."""
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        named: NDArray[np.float32] = shares[:, 1:].sum(axis=1)
        best = 1 + shares[:, 1:].argmax(axis=1)
        # Written so that NaN counts as a name.
        return np.where(named < self._thresholds[best], 0, best), named


def _try(network: NameNetwork, rows: int, reach: int) -> None:
    """Run the network on the last row and the last look.

    Raises:
        ValueError, IndexError: its parts do not fit one another, or the description.
    """
    last = np.full((reach + 1, len(FEATURES) * HASHES), rows - 1, np.int32)
    looks = np.full(len(last), LOOKS - 1, np.int32)
    with np.errstate(all="ignore"):
        (scores,) = network.run(None, {"rows": last, "looks": looks})
    if scores.shape != (len(last), len(KINDS)):
        raise ValueError(f"a network of {scores.shape[-1]} kinds")


def _another(folder: Path) -> BundleMismatch:
    return BundleMismatch(
        f"the name finder in {folder} is not one this version can run",
        fix=Remedy.MATCH_VERSIONS,
        subject="names",
    )


def _listed(file: Path, words: int) -> NDArray[np.float32] | None:
    """Return the rows of listed words; None if not requested, or if an older bundle has none.

    Raises:
        DataLoss: the file holds something else.
    """
    if not words or not file.is_file():
        return None
    try:
        found: NDArray[np.float32] = map_array(file)
    except (ValueError, OSError) as error:
        raise _damaged(file.parent, f"{file.name} is no array") from error
    if found.dtype != np.float32 or found.ndim != 2 or not 0 < len(found) <= words:
        raise _damaged(file.parent, f"{file.name} has the wrong shape")
    return found


def _damaged(folder: Path, problem: str) -> DataLoss:
    return DataLoss(
        f"the name finder in {folder} is damaged: {problem}",
        fix=Remedy.RESTORE_BUNDLE,
        subject="names",
    )
