"""Draws the plain tokens that go in front of a training example.

In privatised token reconstruction (RAPT v2 section III-B2), the cloud learns to recover words that
it also receives. So those words are drawn from the public list, independently of the user's text.
In table VII of the paper, frequencies of the training data help a little, but reveal its subject.
The frequencies here are from public text, in the bundle, and reveal nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import DataLoss, NotReady, Remedy
from sottovoce.core.privacy import policies
from sottovoce.core.privacy.noise import Random
from sottovoce.core.text.word_classes import READINGS

__all__ = ["DEFAULT_VOCABULARY", "Vocabulary", "candidates", "draw", "sequences", "vocabulary"]

DEFAULT_VOCABULARY = 7_630
"""Size of the reconstruction head's vocabulary in RAPT v1 (section 4.1)."""
COUNTS = "class_counts.npy"
"""File of a bundle: Floats1d, how often each row of ``members.npy`` was met in its class."""

_UNSEEN = 0.5
"""Occurrences credited to a word never met, so that it can be drawn as well."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words to draw from: ids Ints1d (n,), and their cumulative probabilities, Floats1d (n,),
    ending in 1."""

    ids: NDArray[np.int32]
    cumulative: NDArray[np.float64]

    def draw(self, n: int, random: Random) -> list[int]:
        """``n`` word ids, independent of one another."""
        places = np.searchsorted(self.cumulative, random.random((n,)), side="right")
        # Rounding may leave the last sum a hair below 1.
        drawn: list[int] = self.ids[np.minimum(places, len(self.ids) - 1)].tolist()
        return drawn


def candidates(bundle: Bundle, policy: str) -> NDArray[np.int32]:
    """Ids, ascending, of the free words that get noise under the policy.

    Raises:
        NotFound: unknown policy.
    """
    free = set(policies.find(policy).with_noise()) - {"CLITIC"}
    readings = [READINGS.index(reading) for reading in free]
    return np.flatnonzero(np.isin(bundle.readings, readings)).astype(np.int32)


def vocabulary(
    bundle: Bundle, policy: str, size: int = 0, *, by_frequency: bool = False
) -> Vocabulary:
    """The ``size`` commonest of `candidates`, all of them where there are fewer.

    A bundle without word frequencies gives the first of its list instead: the vocabularies of
    language models begin with what is common.

    Args:
        size: 0 takes `DEFAULT_VOCABULARY`.
        by_frequency: draw words as often as they come in public text, not uniformly.

    Raises:
        NotFound: unknown policy.
        NotReady: ``by_frequency``, and the bundle has no word frequencies.
    """
    ids = candidates(bundle, policy)
    size = min(size or DEFAULT_VOCABULARY, len(ids))
    met = _met(bundle, ids) if by_frequency or size < len(ids) else None
    if by_frequency and met is None:
        raise NotReady(
            "this bundle holds no word frequencies",
            fix="draw plain tokens uniformly, or pull a bundle that was built with frequencies",
            subject="plain_sampling",
        )
    if met is None:
        return Vocabulary(ids[:size], np.arange(1, size + 1) / size)
    kept = np.sort(np.argsort(-met, kind="stable")[:size])
    weights = met[kept] if by_frequency else np.ones(size)
    return Vocabulary(ids[kept], np.cumsum(weights / weights.sum()))


def draw(bundle: Bundle, n: int, policy: str, random: Random) -> list[int]:
    """``n`` word ids, independent and uniform over `candidates`.

    Raises:
        NotFound: unknown policy.
    """
    return vocabulary(bundle, policy, len(bundle.words)).draw(n, random)


def sequences(words: Vocabulary, n: int, kinds: int, random: Random) -> Iterator[list[int]]:
    """The plain tokens of one example after another, without end.

    Args:
        n: length of a sequence.
        kinds: 0 draws a new sequence each time; k draws k of them once, and each example takes
            one of these by chance (RAPT v2, figure 5a).
    """
    if not kinds:
        while True:
            yield words.draw(n, random)
    drawn = [words.draw(n, random) for _ in range(kinds)]
    while True:
        yield drawn[min(int(random.random((1,))[0] * kinds), kinds - 1)]


def _met(bundle: Bundle, ids: NDArray[np.int32]) -> NDArray[np.float64] | None:
    """How often each word was met in public text; None if the bundle does not say."""
    if COUNTS not in bundle.manifest.files:
        return None
    try:
        counts = np.load(bundle.folder / COUNTS, allow_pickle=False).astype(np.float64)
        # The first classes are all words, in order.
        met: NDArray[np.float64] = counts[: len(bundle.words)] + _UNSEEN
    except (OSError, ValueError) as error:
        raise DataLoss(f"bundle file {COUNTS} is unreadable", fix=Remedy.RESTORE_BUNDLE) from error
    return met[ids]
