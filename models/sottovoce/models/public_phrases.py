"""Builds the list of public phrases, names of several words, that ships with the device.

"Black Forest gateau" names a dish, though each of its words may also be part of a private name.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from sottovoce.core.privacy.phrases import MOST_WORDS
from sottovoce.core.privacy.surrogates.names import known
from sottovoce.core.text.vocabulary import LONGEST, Listed, Mark, Vocabulary, listed_names, plain
from sottovoce.core.text.words import Word, split
from sottovoce.models.corpus import load_language
from sottovoce.models.public_words import read_list, read_text

__all__ = ["build", "collect"]

_COLLECTED: Final = "phrases.txt.gz"
_BY_HAND: Final = {"phrases.txt": 0, "landmarks.txt": Mark.PLACE}

_SIGNS: Final = {"~": Mark.PLACE, "+": Mark.SMALL}
"""What stands behind a phrase in the collected list, and its mark."""
_CLITICS: Final = load_language("en").clitics
_KINDS: Final = frozenset(
    (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28)
)
"""Files of WordNet's lexicographers: everything but groups, places and people."""
_SMALL: Final = frozenset((5, 6, 9, 13, 19, 20, 22, 26, 27))
"""Of these, phrases without a capital are taken, too: animals, tools, food, plants, illnesses."""
_GROUP, _OBJECT = 14, 17
_VISITED: Final = re.compile(
    r"abbey|academy|bridge|cathedral|church|college|hall|hospital|house|institute|mount|palace"
    r"|school|street|tower|university"
)
"""What somebody may live at, study at or work for."""
_TAXON: Final = re.compile(
    r"(?:sub|super)?(?:class|division|family|genus|kingdom|order|phylum|tribe)"
)
_SHORTEST: Final = 6
"""Letters of a phrase."""
_NO_TITLE: Final = re.compile(
    r"(?:calendar|emoji|letter|number|bank) |.* (?:alt|icon|wordmark)( \d+)?$"
)
"""Names of pictures that are no names of programs."""


def collect(wordnet: Path, brands: Iterable[str], out: Path) -> int:
    """Gather phrases of packages into ``out``, and return their number.

    Args:
        wordnet: folder of Debian's `wordnet-base`.
        brands: names of products and firms, see `public_words.titles`.
        out: the folder of the lists.
    """
    found: dict[str, int] = {}
    names = ((text, 0) for text in brands if not _NO_TITLE.match(text))
    for text, marks in (*_wordnet(wordnet), *names):
        words = split(text.strip(), _CLITICS)
        key = _key(words)
        if len(key.encode()) <= LONGEST and _is_phrase(key, [word.text for word in words]):
            found[key] = found.get(key, marks) & marks
    lines = (f"{key}{_signs(found[key])}\n" for key in sorted(found))
    (out / _COLLECTED).write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))
    return len(found)


def build(folder: Path) -> dict[str, int]:
    """Return the phrases in ``folder`` with their marks; "_" joins the words of a phrase.

    A phrase with `Mark.PLACE` may tell a person's place. One with `Mark.NAME` begins with a given
    name. One with `Mark.SMALL` is a name only where its last word is written small.

    Raises:
        InvalidInput: a list is missing.
    """
    found: dict[str, int] = {}
    for line in read_list(folder / _COLLECTED):
        key = line.rstrip("".join(_SIGNS))
        found[key] = sum(mark for sign, mark in _SIGNS.items() if sign in line[len(key) :])
    for file, marks in _BY_HAND.items():
        lines = read_text(folder / file).splitlines()
        found |= {_key(split(line, _CLITICS)): marks for line in lines}
    return {
        key: marks | Mark.PUBLIC | (Mark.NAME if known(key.partition("_")[0]) else 0)
        for key, marks in found.items()
    }


def _key(words: Sequence[Word]) -> str:
    return plain("_".join(word.text for word in words))


def _signs(marks: int) -> str:
    return "".join(sign for sign, mark in _SIGNS.items() if marks & mark)


def _is_phrase(key: str, words: Sequence[str]) -> bool:
    """Return whether words may pass as a whole wherever they stand together."""
    if not 1 < len(words) <= MOST_WORDS or sum(map(str.isalpha, key)) < _SHORTEST:
        return False
    if not key.isprintable() or " " in key or not words[0][:1].isalnum():
        return False
    if key[-1] in _SIGNS or (key.islower() and key == "_".join(words) and known(words[0])):
        return False
    if any(map(str.isdecimal, words)) and any(marks & Mark.DATE for marks in map(_marks, words)):
        return False  # "December 8"
    return not _may_be_person(words)


def _marks(word: str) -> int:
    return Vocabulary.shipped().marks(word)


def _may_be_person(words: Sequence[str]) -> bool:
    """Return whether a given name and a surname stand together with capitals: "Tom Collins"."""
    bits = [listed_names(word) if word[0].isupper() else 0 for word in words]
    given = Listed.GIVEN | Listed.USUAL_GIVEN
    family = Listed.SURNAME | Listed.USUAL_SURNAME
    return any(a & given and b & family for a, b in pairwise(bits))


def _wordnet(folder: Path) -> Iterator[tuple[str, int]]:
    for line in (folder / "data.noun").read_text("latin-1").splitlines():
        if line.startswith("  "):
            continue
        fields = line.split(" ")
        kind = int(fields[1])
        for lemma in fields[4 : 4 + 2 * int(fields[3], 16) : 2]:
            text = lemma.split("(")[0].replace("_", " ")
            if _TAXON.match(text):
                continue
            if text == text.lower():
                if kind in _SMALL:
                    yield text, Mark.SMALL
            elif kind in _KINDS:
                yield text, Mark.PLACE if _VISITED.search(text.lower()) else 0
            elif kind in (_GROUP, _OBJECT):
                yield text, Mark.PLACE
