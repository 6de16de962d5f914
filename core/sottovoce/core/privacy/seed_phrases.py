"""Finds seed phrases: twelve or more words from which anyone can make the keys of a wallet.

Most phrases are words of the English list of BIP-39, `seed_words.txt`, from the package `mnemonic`
(MIT, `seed_words.license.txt`). After a label, any twelve short words count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final

from sottovoce.core.text.words import Kind, Word

__all__ = ["seed_phrases"]

_FEWEST: Final = 12
_LENGTHS: Final = (12, 15, 18, 21, 24)
_WORD = re.compile(r"[a-z]{3,8}|[A-Z][a-z]{2,7}|[A-Z]{3,8}")
_JOINTS: Final = frozenset(",;:|-/\\\"'“”`[](){}#*•")
_DIGITS: Final = 2
"""Digits of a number that counts the words."""
_LISTED: Final = 0.8
"""The share of listed words from which a run without a label is a phrase."""
_EVEN: Final = 0.9
"""The share of equal marks between the words of a list."""
_LABELS: Final = frozenset({"seed", "mnemonic", "recovery", "backup", "wallet", "passphrase"})
_NOUNS: Final = _LABELS | {"phrase", "phrases", "word", "words", "key"}
_BEFORE: Final = 10
"""Words before a phrase in which a label may stand."""


def seed_phrases(words: Sequence[Word], lower: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words of seed phrases.

    Args:
        words: consecutive words.
        lower: each in small letters.
    """
    for run in _runs(words):
        labelled = not _LABELS.isdisjoint(lower[max(run[0] - _BEFORE, 0) : run[0]])
        while lower[run[0]] in _NOUNS and len(run) > _FEWEST and len(run) not in _LENGTHS:
            labelled = labelled or lower[run[0]] in _LABELS
            del run[0]
        if sum(lower[place] in _list() for place in run) >= _LISTED * len(run):
            for end in (0, -1):
                while len(run) > _FEWEST and lower[run[end]] not in _list():
                    del run[end]
            if not labelled and not _even(words, run):
                continue
        elif not labelled:
            continue
        yield from run


def _runs(words: Sequence[Word]) -> Iterator[list[int]]:
    """Yield runs of twelve or more short words, between which only marks and numbers stand."""
    run: list[int] = []
    for place, word in enumerate(words):
        if _WORD.fullmatch(word.text) and not word.clitic:
            run.append(place)
        elif run and not _joins(words, place):
            if len(run) >= _FEWEST:
                yield run
            run = []
    if len(run) >= _FEWEST:
        yield run


def _even(words: Sequence[Word], run: Sequence[int]) -> bool:
    """Return whether the same marks stand between all words, as in a list and not in a sentence."""
    marks = Counter(
        "".join(word.text for word in words[one + 1 : other] if word.kind is Kind.PUNCTUATION)
        for one, other in pairwise(run)
    )
    return marks.most_common(1)[0][1] >= _EVEN * (len(run) - 1)


def _joins(words: Sequence[Word], place: int) -> bool:
    """Return whether a mark or number may stand between the words of a list: "1. hill, 2. rice"."""
    word = words[place]
    if word.kind is Kind.IDENTIFIER:
        return len(word.text.strip(".):")) <= _DIGITS
    if word.text == ".":
        return words[place - 1].kind is Kind.IDENTIFIER and len(words[place - 1].text) <= _DIGITS
    return not set(word.text) - _JOINTS


@cache
def _list() -> frozenset[str]:
    text = resources.files(__package__).joinpath("seed_words.txt").read_text("utf-8")
    return frozenset(text.split())
