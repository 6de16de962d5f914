"""How many content words does one attacker recover, whoever released them?

Why it is here: policies hide different words, so levels compare nothing; what a reader of the
release gets of *all* nouns, verbs, adjectives, adverbs and names does. The attacker is the same for
every policy and every version and knows no mechanism: he has seen texts of the kind beside their
releases, and names the word most often met behind what he reads, but trusts what he reads as if he
had met it once behind itself. A word that passes is recovered.
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
    """Those of ``text`` by the tags of the true words, whatever the device took them for."""
    words = [text[fate.start : fate.end] for fate in fates]
    tags = [tagger.tagset[tag] for tag in tagger.tag(words).ids] if words else []
    return [
        Word(word.casefold(), fate.after.casefold(), fate.treatment == PASS, tag == "PROPN")
        for word, fate, tag in zip(words, fates, tags, strict=True)
        if tag in CONTENT and any(each.isalnum() for each in word)
    ]


def released_text(text: str, fates: Iterable[Fate]) -> str:
    """``text`` with what came out in the place of each word; what stands between stays."""
    found, done = [], 0
    for fate in fates:
        found += [text[done : fate.start], fate.after]
        done = fate.end
    return "".join((*found, text[done:]))


class Attacker:
    """Learns from words beside what was released for them.

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
        """The commonest true word; of equals, and of what was never met, the released one."""
        return self._guesses.get(released, released)


def recovered(word: Word, attacker: Attacker) -> bool:
    """Whether it passed, or is guessed right."""
    return word.passed or attacker.guess(word.released) == word.true
