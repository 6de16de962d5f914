"""Draws words the way people write them, from public counts.

Three figures are averages over running text: the share of words that a level replaces, an
attacker's success and a search graph's quality. The builder, the attackers and the checking device
all draw that text here, so their figures are comparable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sottovoce.core.bundle.manifest import ANY, CLITIC, class_name
from sottovoce.core.privacy.mechanisms.spherical import Mechanism
from sottovoce.core.text.frequencies import Counted
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.word_classes import READINGS

__all__ = [
    *("UNSEEN", "common", "counts_by_tag", "draw", "released_in"),
    *("weights_by_class", "weights_by_reading"),
]

UNSEEN: Final = 0.5
"""Occurrences credited to a word never met, so that it has a weight and can be suspected."""

COMMON: Final = 5_000
"""Free words that do not count as rare."""


def counts_by_tag(
    words: Sequence[str], clitic: NDArray[np.bool_], table: Counted
) -> NDArray[np.float64]:
    """Occurrences of ``words`` by tag: Floats2d (words, tags) in the order of `UPOS`.

    The table's forms are in small letters, and in most languages without accents; where several
    words have one such form, in a cased vocabulary, they share its count.
    """
    places: dict[tuple[str, bool], list[int]] = {}
    for place, (word, attached) in enumerate(zip(words, clitic.tolist(), strict=True)):
        places.setdefault((table.normal_form(word), attached), []).append(place)
    counts = np.zeros((len(words), len(UPOS)))
    entries = zip(table.words, table.clitics.tolist(), table.tags, table.counts, strict=True)
    for word, attached, tag, number in entries:
        if shared := places.get((word, attached)):
            counts[shared, tag] += number / len(shared)
    return counts


def weights_by_class(
    counts: NDArray[np.float64], clitic: NDArray[np.bool_], tags: Sequence[str] | None
) -> dict[str, NDArray[np.float64]]:
    """Return how often each word occurs, by the class in which a mechanism puts it.

    Args:
        counts: Floats2d (words, tags), see `counts_by_tag`.
        clitic: Bools1d (words,).
        tags: parts of speech that are told apart, or None where only clitics are.

    Returns:
        Floats1d (words,) by class name; classes without occurrences are left out.
    """
    by_name = {
        class_name(ANY if tags is None else tag, attached): (clitic == attached)
        * (counts.sum(axis=1) if tags is None else counts[:, UPOS.index(tag)])
        for tag in (tags if tags is not None else (ANY,))
        for attached in (False, True)
    }
    return {name: weights for name, weights in by_name.items() if weights.any()}


def weights_by_reading(
    counts: NDArray[np.float64], readings: NDArray[np.uint8], mechanism: Mechanism
) -> dict[str, NDArray[np.float64]]:
    """How often each word is met, by the class in which a mechanism moves it for its own reading.

    Args:
        counts: Floats2d (words, tags), see `counts_by_tag`.
        readings: Ints1d (words,), places in `READINGS`.
        mechanism: words of readings that it does not protect are left out.

    Returns:
        Floats1d (words,) by class name; classes without occurrences are left out.
    """
    found: dict[str, NDArray[np.float64]] = {}
    for place, reading in enumerate(READINGS):
        if mechanism.protects(reading):
            name = mechanism.word_class(reading, reading == "CLITIC")
            weights = (readings == place) * counts.sum(axis=1)
            found[name] = found.get(name, 0) + weights
    return {name: weights for name, weights in found.items() if weights.any()}


def released_in(name: str, classes: Mapping[str, NDArray[np.int32]]) -> str:
    """The class from which a word of class ``name`` is replaced, as on the device: itself, or all
    free words, or all clitics, where it has no words."""
    if len(classes.get(name, ())):
        return name
    fallback = ANY + CLITIC if name.endswith(CLITIC) else ANY
    return fallback if len(classes.get(fallback, ())) else ANY


def draw(
    weights: Mapping[str, NDArray[np.float64]], n: int, random: Generator
) -> dict[str, NDArray[np.int32]]:
    """About ``n`` words of running text by class: Ints1d ids, ascending.

    Systematic sampling: one random start, then even steps through the summed weights. Every word
    comes up as often as its weight says, but for less than one time, so averages over the sample
    vary far less than over independent draws.
    """
    total = sum(float(each.sum()) for each in weights.values())
    drawn: dict[str, NDArray[np.int32]] = {}
    offset = float(random.random())
    before = 0.0
    for name, each in weights.items():
        ends = offset + (before + np.cumsum(each)) * (n / total)
        times = np.diff(np.floor(ends), prepend=np.floor(offset + before * (n / total)))
        drawn[name] = np.repeat(np.arange(len(each), dtype=np.int32), times.astype(np.int64))
        before += float(each.sum())
    return {name: ids for name, ids in drawn.items() if len(ids)}


def common(counts: NDArray[np.float64], clitic: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which words are not rare: the clitics and the 5,000 commonest free words."""
    order = np.argsort(-np.where(clitic, np.inf, counts.sum(axis=1)), kind="stable")
    among = np.zeros(len(counts), np.bool_)
    among[order[: COMMON + int(clitic.sum())]] = True
    return among
