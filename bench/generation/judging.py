"""Quality of texts against human references: BLEU, chrF, and entities found word for word.

Answers as written and as restored are judged on the same entries. Differences and ratios are too:
each bootstrap draw of entries serves all compared figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU, CHRF

from bench.generation.webnlg import Entry
from bench.resampling import drawn, interval

__all__ = ["MEASURES", "Judge", "figure"]

Replicates = NDArray[np.float64]
"""A figure over all entries, then over every resample: Floats1d."""

MEASURES: Final = ("bleu", "chrf", "entities")


@dataclass(frozen=True)
class Judge:
    """Of texts, one for each of ``entries``, each with at least one entity somewhere."""

    entries: Sequence[Entry]

    @cached_property
    def _references(self) -> list[tuple[str | None, ...]]:
        """Return all entries' first references, then the second ones, and so on."""
        return [*zip_longest(*(entry.texts for entry in self.entries))]

    @cached_property
    def _times(self) -> NDArray[np.int64]:
        n = len(self.entries)
        return np.vstack([np.ones((1, n), np.int64), drawn(n)])

    def scores(self, texts: Sequence[str]) -> dict[str, Replicates]:
        """Return each of `MEASURES`: BLEU and chrF (0 to 100), and the share of exact entities."""
        named = [entry.entities for entry in self.entries]
        counts = np.array(
            [
                (sum(name in text for name in names), len(names))
                for text, names in zip(texts, named, strict=True)
            ]
        )
        kept, all_of = (self._times @ counts).T
        return {
            "bleu": self._corpus(BLEU(), texts),
            "chrf": self._corpus(CHRF(), texts),
            "entities": kept / all_of.clip(1),
        }

    def _corpus(self, metric: Any, texts: Sequence[str]) -> Replicates:
        """Return a corpus score as a function of sums over texts, which are computed once."""
        sums = self._times @ np.array(
            metric._extract_corpus_statistics([*texts], self._references), dtype=np.int64
        )
        return np.array([metric._compute_score_from_stats(row).score for row in sums.tolist()])


def figure(found: Replicates) -> dict[str, Any]:
    """Return ``mean`` over all entries, and its ``interval``."""
    return {"mean": float(found[0]), "interval": interval(found[1:])}
