"""Count the marked spans and words that a release left unchanged, with confidence intervals.

A word leaked if it was released unchanged, apart from case. A span leaked if all its words did.
Punctuation is no word. Function words within a name ("Bank of the West") are not counted, unless
the span holds nothing else. Intervals resample documents, because the words of a document are not
independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from scipy.stats import binomtest

from bench.leaks.corpora import OTHER_WORDS, Document
from bench.leaks.released import DRAW, PASS, Fate
from bench.resampling import drawn, interval

__all__ = ["FUNCTION_WORDS", "Rate", "Tally", "kept", "tally"]

FUNCTION_WORDS: Final = frozenset(
    "a an and at by for from in of on or the to with 's ’s &".split()  # noqa: SIM905
)
"""Lower-case function words, which reveal nothing of their name."""


@dataclass
class Rate:
    """How often, of how many, in documents one after the other."""

    hits: list[int] = field(default_factory=list)
    n: list[int] = field(default_factory=list)

    def add(self, hits: int, n: int) -> None:
        """Add a document; one without any item is ignored."""
        if n:
            self.hits.append(hits)
            self.n.append(n)

    def extend(self, other: Rate) -> None:
        """Documents of another corpus."""
        self.hits += other.hits
        self.n += other.n

    def figures(self) -> dict[str, Any]:
        """Return ``hits``, ``n``, ``share`` and ``ci``.

        The interval is the bootstrap's over documents. Where all documents are alike, it is
        Wilson's, with ``n`` the number of documents.
        """
        hits, n = sum(self.hits), sum(self.n)
        if not n:
            return {"hits": 0, "n": 0, "share": None, "ci": None}
        if hits in (0, n):
            documents = len(self.n)
            likely = binomtest(documents if hits else 0, documents).proportion_ci(method="wilson")
            ci = [float(likely.low), float(likely.high)]
        else:
            times = drawn(len(self.n))
            ci = interval((times @ np.array(self.hits)) / (times @ np.array(self.n)))
        return {"hits": hits, "n": n, "share": hits / n, "ci": ci}


@dataclass
class Tally:
    """Counts of one group of spans in one corpus.

    Attributes:
        spans: whole spans that leaked.
        words: words of spans that leaked.
        passed: words of spans that got no treatment, by luck or not.
        drawn: words of spans that were replaced by a surrogate.
        leaked: the leaked spans, and how often each did.
        drawn_as: the kinds that the device gave the drawn words.
    """

    spans: Rate = field(default_factory=Rate)
    words: Rate = field(default_factory=Rate)
    passed: Rate = field(default_factory=Rate)
    drawn: Rate = field(default_factory=Rate)
    leaked: Counter[str] = field(default_factory=Counter)
    drawn_as: Counter[str] = field(default_factory=Counter)

    def extend(self, other: Tally) -> None:
        """Add the counts of another corpus."""
        for name in ("spans", "words", "passed", "drawn"):
            getattr(self, name).extend(getattr(other, name))
        self.leaked.update(other.leaked)
        self.drawn_as.update(other.drawn_as)

    def figures(self) -> dict[str, Any]:
        """Return all counts; the words themselves stay out, because they are personal data."""
        rates = {name: getattr(self, name).figures() for name in ("spans", "words", "passed")}
        return {**rates, "drawn": self.drawn.figures(), "drawn_as": dict(self.drawn_as)}


def kept(text: str, fate: Fate) -> bool:
    """Return whether a word was released unchanged, apart from case."""
    return fate.after.casefold() == text[fate.start : fate.end].casefold()


def tally(
    documents: Sequence[Document], released: Iterable[Sequence[Fate]]
) -> tuple[dict[str, Tally], Rate]:
    """Count the leaks of each group of spans, and the unchanged share of all words."""
    found: dict[str, Tally] = {}
    every = Rate()
    for document, fates in zip(documents, released, strict=True):
        words = [fate for fate in fates if _is_word(document.text, fate)]
        every.add(sum(kept(document.text, fate) for fate in words), len(words))
        by_group: dict[str, list[tuple[str, list[Fate]]]] = {}
        for span in document.spans:
            inside = [fate for fate in words if fate.start < span.end and span.start < fate.end]
            if span.group != OTHER_WORDS:
                inside = _telling(document.text, inside) or inside
            if inside:
                text = document.text[span.start : span.end]
                by_group.setdefault(span.group, []).append((text, inside))
        for group, spans in by_group.items():
            _count(document.text, spans, found.setdefault(group, Tally()))
    return found, every


def _count(text: str, spans: Sequence[tuple[str, list[Fate]]], into: Tally) -> None:
    words = [fate for _, inside in spans for fate in inside]
    through = [span for span, inside in spans if all(kept(text, fate) for fate in inside)]
    into.spans.add(len(through), len(spans))
    into.words.add(sum(kept(text, fate) for fate in words), len(words))
    into.passed.add(sum(fate.treatment == PASS for fate in words), len(words))
    into.drawn.add(sum(fate.treatment == DRAW for fate in words), len(words))
    into.leaked.update(through)
    into.drawn_as.update(fate.tag for fate in words if fate.treatment == DRAW)


def _is_word(text: str, fate: Fate) -> bool:
    return any(each.isalnum() for each in text[fate.start : fate.end])


def _telling(text: str, fates: Sequence[Fate]) -> list[Fate]:
    return [fate for fate in fates if text[fate.start : fate.end].casefold() not in FUNCTION_WORDS]
