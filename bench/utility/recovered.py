"""How many content words does one attacker recover, for any policy and version?

Policies hide different words, so their levels are not comparable. The recovered share of *all*
nouns, verbs, adjectives, adverbs and names is comparable. The attacker is the same for every policy
and version, and knows no mechanism. He has seen texts of the same kind beside their releases. For
each released word he guesses the original that he met most often. He counts one extra occurrence of
the word itself. A word that passes is recovered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bench.leaks.released import PASS, Fate
from sottovoce.core.text.tagger import Tagger

__all__ = ["CONTENT", "Attacker", "Word", "content_words", "recovered", "released_text"]

CONTENT: Final = frozenset(("NOUN", "VERB", "ADJ", "ADV", "PROPN"))
"""Universal parts of speech."""


class Word(NamedTuple):
    """A content word.

    Attributes:
        true, released: lower-cased.
        passed: nothing was done to it.
        name: it is a proper noun.
    """

    true: str
    released: str
    passed: bool
    name: bool = False


def content_words(text: str, fates: Sequence[Fate], tagger: Tagger) -> list[Word]:
    """Return the content words of ``text``, by tags of the original words."""
    words = [text[fate.start : fate.end] for fate in fates]
    tags = [tagger.tagset[tag] for tag in tagger.tag(words).ids] if words else []
    return [
        Word(word.casefold(), fate.after.casefold(), fate.treatment == PASS, tag == "PROPN")
        for word, fate, tag in zip(words, fates, tags, strict=True)
        if tag in CONTENT and any(each.isalnum() for each in word)
    ]


def released_text(text: str, fates: Iterable[Fate]) -> str:
    """Return ``text`` with each word replaced by its release; the text between words stays."""
    found, done = [], 0
    for fate in fates:
        found += [text[done : fate.start], fate.after]
        done = fate.end
    return "".join((*found, text[done:]))


class Attacker:
    """An attacker trained on words and their releases.

    >>> attacker = Attacker([Word("film", "movie", False)] * 2)
    >>> attacker.guess("movie"), attacker.guess("table")
    ('film', 'table')
    """

    def __init__(self, seen: Iterable[Word]) -> None:
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for word in seen:
            counts[word.released][word.true] += 1
        for released, true in counts.items():
            true[released] += 1
        self._guesses = {
            released: max(true, key=lambda each: (true[each], each == released))
            for released, true in counts.items()
        }

    def guess(self, released: str) -> str:
        """Return the commonest true word; on ties and for unknown words, the released word."""
        return self._guesses.get(released, released)


def recovered(word: Word, attacker: Attacker) -> bool:
    """Return whether the word passed or is guessed correctly."""
    return word.passed or attacker.guess(word.released) == word.true
