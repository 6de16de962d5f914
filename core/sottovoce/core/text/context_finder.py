"""Finds names by reading the whole sentence, on the device, for the policy `personal`.

`sottovoce.core.text.names` reads a word and only the looks of its neighbours, because the bound of
the other policies needs that. This finder reads all words in clear. It tells "Will" the person from
"will" the verb, finds names in rows and forms, and passes capitals that name nothing. Its findings
depend on the neighbours, so no bound holds for the words that pass.

The weights ship with the device, not with a bundle. A provider cannot blunt them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady
from sottovoce.core.platform.schema import Longest, Range, Sha256, decode, parse_object
from sottovoce.core.text import tagger
from sottovoce.core.text.names import KINDS, Layer, linear, summed
from sottovoce.core.text.onnx_models import check, weights
from sottovoce.core.text.tagger import HASHES, FeatureSpec, form_features
from sottovoce.core.text.vocabulary import Vocabulary, listed_names

_Floats = NDArray[np.float32]

FORMAT: Final = "context_finder.v2"
NAMED: Final = KINDS[1:]
"""The kinds of names, in the order of the columns of `ContextFinder.find`."""
_HIDDEN: Final = NAMED[:3]
"""Persons, places and organisations; other names say what a text is about."""
BREAK: Final = "\n"
"""The word that a caller may put where a line ends; rows and forms are read better with it."""
WINDOW: Final = 512
"""Words in one run of the network, which bounds the memory, whatever the text's length."""
_FARTHEST: Final = 64
"""The most words that one layer may reach to either side; padding grows with this number."""
_MOST_BYTES: Final = 3 << 20
"""The largest network that is read."""
FEATURES: Final = (*tagger.FEATURES, "vocabulary", "names")
"""What the network knows of a word: its form, its public meanings, and the lists that hold it."""
_FIX: Final = "install sottovoce-core again"


class ContextNetwork:
    """The network of a `ContextFinder`.

    Args:
        stored: the constants of ``context_finder.onnx`` by name.

    Raises:
        ValueError, KeyError: these are not its constants.
    """

    def __init__(self, stored: Mapping[str, NDArray[Any]]) -> None:
        self._table, self._scale = stored["table.whole"], stored["table.scale"]
        self._mix = Layer.of(stored, "mix", "mix_norm")
        names = [name for name in stored if name.startswith("pad")]
        self._distances = [int(stored[f"pad{i}"][0]) for i in range(len(names))]
        if not all(0 < distance <= _FARTHEST for distance in self._distances):
            raise ValueError("pad")
        layers = [Layer.of(stored, f"layer{i}", f"norm{i}") for i in range(len(names))]
        self._layers = [(layer, np.split(layer.weight, 3)) for layer in layers]
        self._out, self._out_bias = linear(stored, "out")

    @property
    def reach(self) -> int:
        """The number of words on either side that a score depends on."""
        return sum(self._distances)

    def run(self, rows: NDArray[np.int32]) -> _Floats:
        """Return the scores of consecutive words: Floats2d (n, kinds).

        Args:
            rows: Ints2d (n, features * HASHES), of the table.
        """
        n = len(rows)
        state = self._mix.ended(summed(self._table, self._scale, rows) @ self._mix.weight)
        for distance, (layer, (before, itself, after)) in zip(
            self._distances, self._layers, strict=True
        ):
            inner = max(n - distance, 0)
            product = state @ itself
            product[distance:] += state[:inner] @ before
            product[:inner] += state[distance:] @ after
            state += layer.ended(product)
        scores: _Floats = state @ self._out
        scores += self._out_bias
        return scores


@dataclass(frozen=True)
class _Description:
    """The content of `context_finder.json`; the annotations are its schema."""

    kinds: tuple[str, ...]
    features: tuple[str, ...]
    hashes: int
    rows: Annotated[
        tuple[Annotated[int, Range(1, 1 << 24)], ...], Longest(len(FEATURES), len(FEATURES))
    ]
    seed: Annotated[int, Range(0, (1 << 64) - 1)]
    thresholds: dict[str, Annotated[float, Range(1e-9, 1.0)]]
    sha256: Sha256


class ContextFinder:
    """The finder: `context_finder.onnx` and its description `context_finder.json`.

    Safe to share between threads. No word of a text is kept.
    """

    def __init__(
        self,
        network: ContextNetwork,
        spec: FeatureSpec,
        thresholds: Mapping[str, float],
    ) -> None:
        self.reach = network.reach
        """The number of words on either side that a word's probabilities depend on."""
        self.thresholds = dict(thresholds)
        """For each of `NAMED` the recommended probability above which a word counts as found."""
        self._network = network
        self._spec = spec

    @classmethod
    def shipped(cls) -> Self:
        """Open the finder that ships with this package.

        Raises:
            DataLoss: the installation is damaged.
        """
        return cls._open(resources.files(__package__))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open the finder in `folder`.

        Raises:
            NotReady: the folder holds no finder.
            BundleMismatch: the finder is of a format this version does not read.
            DataLoss: the files do not belong together, or one is damaged.
        """
        return cls._open(folder)

    @classmethod
    def _open(cls, folder: Traversable) -> Self:
        description, network = folder / "context_finder.json", folder / "context_finder.onnx"
        if not description.is_file() or not network.is_file():
            raise NotReady(f"no context finder in {folder}", fix=_FIX, subject="context finder")
        with network.open("rb") as file:
            model = file.read(_MOST_BYTES + 1)
        try:
            if len(model) > _MOST_BYTES:
                raise ValueError(f"a network of more than {_MOST_BYTES} bytes")
            form, raw = parse_object(description.read_bytes())
            if form != FORMAT:
                raise _another(folder)
            told = decode(_Description, raw, more=True)
            if (told.kinds, told.features, told.hashes) != (KINDS, FEATURES, HASHES):
                raise _another(folder)
            if hashlib.sha256(model).hexdigest() != told.sha256:
                raise ValueError("sha256")
            check(memoryview(model))
            opened = ContextNetwork(weights(model))
            thresholds = {kind: told.thresholds[kind] for kind in NAMED}
            _try(opened, sum(told.rows))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise _damaged(folder, f"{error} does not fit") from None
        return cls(opened, FeatureSpec(told.rows, told.seed, features), thresholds)

    def find(self, words: Sequence[str], session: str = "") -> NDArray[np.float32]:
        """Return for each word the probability that it belongs to a name of each kind.

        Long texts are read in windows that overlap by the reach, so the result is the same as in
        one single run, except for the last bits. Words without a letter get zeros.

        Args:
            words: texts of consecutive words as `sottovoce.core.text.words` cuts them, with `BREAK`
                where a line ends.
            session: not used, because reading again costs little.

        Returns:
            Floats2d (n_words, `NAMED`), 0 to 1. A row's sum is at most 1; the rest is no name.
        """
        found = np.zeros((len(words), len(NAMED)), np.float32)
        for start in range(0, len(words), WINDOW):
            end = min(start + WINDOW, len(words))
            first = max(0, start - self.reach)
            rows = self._spec.rows_of(words[first : min(len(words), end + self.reach)])
            scores = self._network.run(rows)[start - first : end - first]
            scores -= scores.max(axis=1, keepdims=True)
            np.exp(scores, out=scores)
            found[start:end] = (scores / scores.sum(axis=1, keepdims=True))[:, 1:]
        # Written so that a result that is no number counts as a name.
        found[np.isnan(found)] = 1
        found[[not any(map(str.isalpha, word)) for word in words]] = 0
        return found

    def decide(self, found: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return positions in `KINDS` of the words that reach the threshold, else 0.

        A word's kind is the likeliest of person, place and organisation. The sum of these three
        probabilities is compared with the threshold of that kind, because a doubt between two kinds
        is no doubt about the name.

        Args:
            found: from `find`.
        """
        hidden = found[:, : len(_HIDDEN)]
        best = hidden.argmax(axis=1)
        least = np.array([self.thresholds[kind] for kind in _HIDDEN], np.float32)
        return np.where(hidden.sum(axis=1) >= least[best], 1 + best, 0).astype(np.uint8)


def features(word: str) -> tuple[str, ...]:
    """Return the features of a word, in the order of `FEATURES`.

    Raises:
        DataLoss: the lists that ship with this package are damaged.
    """
    return (*form_features(word), str(Vocabulary.shipped().marks(word)), str(listed_names(word)))


def card() -> str:
    """Return the model card of the finder that ships with this package."""
    return (resources.files(__package__) / "context_finder.md").read_text(encoding="utf-8")


def _try(network: ContextNetwork, rows: int) -> None:
    """Run the network on the last row.

    Raises:
        ValueError, IndexError: its parts do not fit one another, or the description.
    """
    last = np.full((network.reach + 1, len(FEATURES) * HASHES), rows - 1, np.int32)
    with np.errstate(all="ignore"):
        scores = network.run(last)
    if scores.shape != (len(last), len(KINDS)):
        raise ValueError(f"a network of {scores.shape[-1]} kinds")


def _another(folder: Traversable) -> BundleMismatch:
    return BundleMismatch(
        f"the context finder in {folder} is not one this version can run",
        fix=_FIX,
        subject="context finder",
    )


def _damaged(folder: Traversable, problem: str) -> DataLoss:
    return DataLoss(
        f"the context finder in {folder} is damaged: {problem}",
        fix=_FIX,
        subject="context finder",
    )
