"""Reads the marked sentences that both finders learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sottovoce.models.names_data import (
    NONE,
    Marked,
    read_entities,
    read_uner,
    read_wnut,
)

__all__ = ["SLOTS", "is_tweet", "ordinary_words", "read_marked"]

SLOTS: Final = {"PERSON": "person", "PLACE": "place", "ORGANISATION": "org"}
"""The slot that draws another name of a kind."""
_TWEETS: Final = ("btc", "train.jsonl.gz")
_OFTEN: Final = 3
"""Times that a small word must occur in the treebanks to count as an ordinary one."""


def read_marked(data: Path) -> list[Marked]:
    """Return the sentences marked with kinds that weights may learn from."""
    return [
        *read_wnut(data / "wnut17" / "train.jsonl.gz"),
        *read_uner(data / "uner_ewt" / "dev.jsonl.gz", data / "ud_ewt" / "dev.conllu.gz"),
        *read_entities(data / "btc" / "train.jsonl.gz", others=False),
        *read_entities(data / "wikigold" / "all.jsonl.gz", others=True),
        *read_entities(data / "crossner" / "train.jsonl.gz", others=True),
        *read_entities(data / "sec_filings" / "train.jsonl.gz", others=False),
    ]


def ordinary_words(treebanks: Sequence[Marked]) -> list[str]:
    """Return the small words that the treebanks often show as no name."""
    count = Counter(
        word.text
        for sentence in treebanks
        for word, bits in zip(sentence.words, sentence.allowed, strict=True)
        if bits == NONE and word.text.isalpha() and word.text.islower()
    )
    return sorted(word for word, times in count.items() if times >= _OFTEN)


def is_tweet(sentence: Marked) -> bool:
    """Return whether `read_marked` read the sentence from a set of tweets."""
    return sentence.document.split(":")[0] in _TWEETS
