"""A bigram model of public text, the attacker's knowledge of which word follows which.

Why it is here: attackers that look at one word at a time leave out the strongest hint there is.
Counted from text that anyone can have; the private text is not among it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.attacks.text import Ints, Lexicon
from sottovoce.core.text.words import split
from sottovoce.models import corpus

__all__ = ["Bigrams", "numbered", "public_sequences"]

_DISCOUNT: Final = 0.75


@dataclass(frozen=True)
class Bigrams:
    """Interpolated Kneser-Ney (absolute discount, continuation counts below).

    Attributes:
        size: number of symbols; all others count as one more symbol.
        keys: Ints1d (pairs,), ascending, first * (size + 1) + second.
        discounted: Floats1d (pairs,), (count - discount) / count of the first.
        rest: Floats1d (size + 1,), probability left for symbols not met after this one.
        continuation: Floats1d (size + 1,), share of all pairs that end in this symbol.
        log_share: Floats1d (size + 1,), log of the share of running text.
    """

    size: int
    keys: NDArray[np.int64]
    discounted: NDArray[np.float32]
    rest: NDArray[np.float32]
    continuation: NDArray[np.float32]
    log_share: NDArray[np.float32]

    @classmethod
    def of(cls, text: NDArray[np.integer], size: int) -> Bigrams:
        """Count neighbours in ``text``, which holds symbols in order with boundaries among them."""
        symbols = np.minimum(text, size).astype(np.int64)
        keys, counts = np.unique(symbols[:-1] * (size + 1) + symbols[1:], return_counts=True)
        first, second = keys // (size + 1), keys % (size + 1)
        total = np.bincount(first, counts, size + 1)
        kinds = np.bincount(first, minlength=size + 1)
        ends = np.bincount(second, minlength=size + 1) + 0.5
        share = np.bincount(symbols, minlength=size + 1) + 0.5
        rest = np.where(total > 0, _DISCOUNT * kinds / np.maximum(total, 1), 1.0)
        return cls(
            size,
            keys,
            ((counts - _DISCOUNT) / total[first]).astype(np.float32),
            rest.astype(np.float32),
            (ends / ends.sum()).astype(np.float32),
            np.log(share / share.sum()).astype(np.float32),
        )

    def information(self, first: Ints, second: Ints) -> NDArray[np.float32]:
        """Return log p(second | first) - log p(second): Floats2d (n, m).

        Args:
            first: Ints1d (n,).
            second: Ints1d (m,).
        """
        a = np.minimum(first, self.size).astype(np.int64)[:, None]
        b = np.minimum(second, self.size).astype(np.int64)[None, :]
        wanted = a * (self.size + 1) + b
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        met = np.where(self.keys[place] == wanted, self.discounted[place], np.float32(0))
        found: NDArray[np.float32] = np.log(met + self.rest[a] * self.continuation[b])
        found -= self.log_share[b]
        return found


def public_sequences(data: Path, words: int) -> Iterable[list[str]]:
    """Return sentences and paragraphs of the counted sources, about ``words`` words in all."""
    found = corpus.find(data)
    for treebank in found.treebanks.values():
        for sentence in treebank() if words > 0 else ():
            yield list(sentence.words)
            words -= len(sentence.words)
            if words <= 0:
                return
    each = words // len(found.texts)
    for paragraphs in found.texts.values():
        text = paragraphs()
        size = sum(paragraph.count(" ") + 1 for paragraph in text)
        for paragraph in text[:: max(1, round(size / max(1, each)))]:
            yield [paragraph]


def numbered(
    sequences: Iterable[list[str]], lexicon: Lexicon, clitics: tuple[str, ...]
) -> NDArray[np.int32]:
    """Return one long text, with boundaries between sentences."""
    found: list[int] = [lexicon.boundary]
    for sequence in sequences:
        for word in split(" ".join(sequence), clitics):
            found.append(lexicon.number(word.text))
            if word.text in ".!?":
                found.append(lexicon.boundary)
        if found[-1] != lexicon.boundary:
            found.append(lexicon.boundary)
    return np.array(found, np.int32)
