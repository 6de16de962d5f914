"""The promises of restoration, checked on a cloud that repeats its prompt and adds a sentence.

A model that writes badly would hide faults of restoration. Here the answer is the release itself,
followed by a sentence about other facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.generation.conversation import Device
from bench.generation.webnlg import Entry
from bench.resampling import drawn, interval
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.restoration import Restoration
from sottovoce.core.privacy.surrogate_table import TOKEN

__all__ = ["ENTITIES", "FALSE", "HELD", "Tally", "gates", "tally"]

ENTITIES: Final = 0.99
"""Minimum share of entities that are restored exactly."""
FALSE: Final = 0.003
"""Maximum share of words without a surrogate that restoration may change."""
HELD: Final = 2
"""Maximum number of words that a stream may hold back."""

_CUTS: Final = (1, 2, 3, 5, 8, 13, 40)
"""Characters in a piece, and pieces of random lengths."""


@dataclass
class Tally:
    """Counts, an item for each entry.

    Attributes:
        entities, kept, left: entities of the text, entities restored in the answer, and entities
            released as typed.
        words, false: words without a surrogate, and those among them that restoration changed.
        alike: whether restoration is the same for every way to cut the answer into pieces.
        held: largest number of words held back; a word with punctuation in it is one word.
    """

    entities: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    false: list[int] = field(default_factory=list)
    alike: bool = True
    held: int = 0


def tally(
    device: Device,
    entries: Sequence[Entry],
    setting: Setting,
    each: Callable[[], object] = lambda: None,
) -> Tally:
    """Count over entries; the first text of each following entry is the cloud's added sentence."""
    found = Tally()
    random = np.random.default_rng(0)
    for at, entry in enumerate(entries):
        text, own = entry.texts[0], entries[(at + 1) % len(entries)].texts[0]
        release = device.release(text, setting)
        way_back = device.restoration(release)
        answer = f"{release.text}\n{own}"
        back = way_back.restore(answer).text
        echoed, _, added = back.rpartition("\n")
        found.entities.append(len(entry.entities))
        found.kept.append(sum(name in echoed for name in entry.entities))
        found.left.append(sum(name in release.text for name in entry.entities))
        words, false = _false(release, echoed, own, added)
        found.words.append(words)
        found.false.append(false)
        alike, held = _streamed(way_back, answer, back, random)
        found.alike &= alike
        found.held = max(found.held, held)
        each()
    return found


def gates(found: Tally) -> dict[str, Any]:
    """Return the figures with their intervals, and whether they keep the promises."""
    entities, false = _share(found.kept, found.entities), _share(found.false, found.words)
    return {
        "entities": entities,
        "entities_left": _share(found.left, found.entities),
        "false": false,
        "words": sum(found.words),
        "streams_alike": found.alike,
        "held": found.held,
        "kept": entities["share"] >= ENTITIES
        and false["share"] <= FALSE
        and found.alike
        and found.held <= HELD,
    }


def _share(part: Sequence[int], whole: Sequence[int]) -> dict[str, Any]:
    """Return the share over all entries, and its interval over entries."""
    counts = np.array([part, whole], dtype=float)
    resampled: NDArray[np.float64] = drawn(len(part)) @ counts.T
    return {
        "share": float(counts[0].sum() / counts[1].sum()),
        "ci": interval(resampled[:, 0] / resampled[:, 1].clip(1)),
    }


def _false(release: Release, echoed: str, own: str, added: str) -> tuple[int, int]:
    """Return the number of words without a surrogate, and how many of them restoration changed."""
    typed: list[str] = []
    stayed: list[bool] = []
    for word in release.each_word():
        tokens = TOKEN.findall(release.document[word.start : word.end])
        typed += tokens
        stayed += [not word.replaced] * len(tokens)
    typed += TOKEN.findall(own)
    stayed += [True] * (len(typed) - len(stayed))
    came = [*TOKEN.findall(echoed), *TOKEN.findall(added)]
    false = 0
    for kind, start, end, _, _ in SequenceMatcher(None, typed, came, autojunk=False).get_opcodes():
        # Of a block that changed, words that left as typed count where nothing else is in it.
        if kind != "equal" and all(stayed[start:end]):
            false += end - start
    return sum(stayed), false


def _streamed(
    way_back: Restoration, answer: str, whole: str, random: np.random.Generator
) -> tuple[bool, int]:
    """Return whether all piece sizes give the same text, and the most words held back."""
    alike, held = True, 0
    for size in (*_CUTS, 0, 0, 0):
        stream, out, at = way_back.stream(), [], 0
        while at < len(answer):
            step = size or int(random.integers(1, 12))
            out.append(stream.feed(answer[at : at + step]))
            at += step
            held = max(held, sum(any(map(str.isalnum, word)) for word in stream.held.split()))
        alike &= "".join([*out, stream.finish()]) == whole
    return alike, held
