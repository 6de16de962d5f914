"""Builds the list of public phrases, names of several words, that ships with the device.

"Black Forest gateau" names a dish, though each of its words may also be part of a private name.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from sottovoce.core.privacy.phrases import MOST_WORDS
from sottovoce.core.privacy.surrogates.names import known
from sottovoce.core.text.vocabulary import LONGEST, Listed, Mark, Vocabulary, listed_names, plain
from sottovoce.core.text.words import Word, split
from sottovoce.models.corpus import load_language
from sottovoce.models.public_words import read_list, read_text

__all__ = ["build", "collect", "may_be_person"]

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
_INSTITUTIONS: Final = frozenset(
    (
        *("abbey", "academy", "cathedral", "college", "hospital", "institute", "palace"),
        *("school", "university"),
    )
)
"""Words in the name of what somebody may study at or work for."""
_TAXON: Final = re.compile(
    r"(?:sub|super)?(?:class|division|family|genus|kingdom|order|phylum|tribe)"
)
_HOMES: Final = frozenset(
    (
        *("bank", "bar", "bridge", "cafe", "church", "close", "corner", "court", "cove"),
        *("crossing", "dale", "end", "farm", "field", "gardens", "green", "grove", "hall"),
        *("hill", "hotel", "house", "inn", "island", "lane", "lodge", "manor", "mansion", "park"),
        *("place", "road", "school", "square", "street", "tower", "way", "wood"),
    )
)
"""Words that end the name of a place where somebody may live or meet."""
_TITLES: Final = frozenset(
    (
        *("abu", "aunt", "brother", "captain", "doctor", "dr", "father", "inspector"),
        *("king", "lady", "lord", "madame", "miss", "mother", "mr", "mrs", "ms", "prince"),
        *("princess", "professor", "queen", "saint", "sir", "sister", "st", "umm", "uncle"),
    )
)
_OWNED: Final = frozenset(
    (
        *("canal", "chorea", "comet", "constant", "cube", "cycle", "disease", "effect"),
        *("equation", "experiment", "function", "identity", "inequality", "law", "laws", "lemma"),
        *("number", "palsy", "paradox", "phenomenon", "principle", "problem", "radius", "razor"),
        *("rule", "sign", "syndrome", "test", "theorem", "theory", "thyroiditis", "triangle"),
    )
)
"""What the name of a discoverer or an illness ends in."""
_NUMBERED: Final = re.compile(r"_\d{3,}$|_\d{3,}_")
_JOINTS: Final = frozenset(("the", "and", "y", "et", "und", "of", "de", "von", "van"))
_NAMES: Final = Listed.GIVEN | Listed.USUAL_GIVEN | Listed.SURNAME | Listed.USUAL_SURNAME
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
    names = ((text, 0) for text in brands if _is_title(text))
    for text, marks in (*_wordnet(wordnet), *names):
        words = split(text.strip(), _CLITICS)
        key = _key(words)
        if len(key.encode()) <= LONGEST and _is_phrase(key, words):
            found[key] = found.get(key, marks) & marks
    lines = (f"{key}{_signs(found[key])}\n" for key in sorted(found))
    (out / _COLLECTED).write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))
    return len(found)


def build(folder: Path) -> dict[str, int]:
    """Return the phrases in ``folder`` with their marks; "_" joins the words of a phrase.

    A phrase with `Mark.PLACE` may tell a person's place. A phrase with `Mark.NAME` holds a given
    name. A phrase with `Mark.SMALL` is a name only where its last word is written small. In a
    phrase with `Mark.COMMON`, all words are everyday words. Lines in small letters that people
    wrote were reviewed one by one, and have `Mark.WORD`: only their first word counts as a given
    name.

    Raises:
        InvalidInput: a list is missing.
    """
    found, reviewed = dict[str, int](), dict[str, int]()
    for line in read_list(folder / _COLLECTED):
        key = line.rstrip("".join(_SIGNS))
        found[key] = sum(mark for sign, mark in _SIGNS.items() if sign in line[len(key) :])
    for file, marks in _BY_HAND.items():
        for line in read_text(folder / file).splitlines():
            words = split(line, _CLITICS)
            key = _key(words)
            if line == line.lower():
                reviewed[key] = marks | Mark.PUBLIC | Mark.WORD | Mark.NAME * known(words[0].text)
            elif not _is_owned(words):
                found[key] = marks | (Mark.SMALL if _ends_small(words) else 0)
    return {key: marks | _more(key) for key, marks in found.items()} | reviewed


def _more(key: str) -> int:
    """Return the marks that follow from the words of a phrase."""
    words = [word for word in key.split("_") if word.isalpha()] or [key]
    marks = Mark.PUBLIC
    if len(words) == 1 or any(map(known, words)) or _is_name(words[0]) or words[0] in _TITLES:
        marks |= Mark.NAME
    if words[-1] in _HOMES or not _INSTITUTIONS.isdisjoint(words):
        marks |= Mark.PLACE
    if all(_marks(word) & Mark.WORD for word in words):
        marks |= Mark.COMMON
    return marks


def _is_name(word: str) -> bool:
    """Return whether a word is listed as a name, and as no word or product."""
    return bool(listed_names(word) & _NAMES) and not _marks(word) & (Mark.WORD | Mark.PUBLIC)


def _is_owned(words: Sequence[Word]) -> bool:
    """Return whether a name owns an everyday thing: "Jane's addiction", and no law or disease."""
    owned = any(word.text.lower() in ("'s", "’s", "'", "’") for word in words[1:])
    last = words[-1].text
    return owned and last.islower() and last not in _OWNED


def _signs(marks: int) -> str:
    return "".join(sign for sign, mark in _SIGNS.items() if marks & mark)


def _key(words: Sequence[Word]) -> str:
    return plain("_".join(word.text for word in words))


def _ends_small(words: Sequence[Word]) -> bool:
    """Return whether a phrase begins with a capital, and its last word does not: "Boston ivy"."""
    texts = [word.text for word in words if word.text[0].isalpha() and not word.clitic]
    return len(texts) > 1 and texts[0][0].isupper() and texts[-1].islower()


def _is_title(text: str) -> bool:
    """Return False for a product or firm with a name like a small firm's: "Home Smart"."""
    words = split(text.strip(), _CLITICS)
    plain_words = all(_marks(word.text) & Mark.WORD for word in words if word.text.isalpha())
    return not (_NO_TITLE.match(text) or plain_words or _is_firm(words))


def _is_phrase(key: str, words: Sequence[Word]) -> bool:
    """Return whether words may pass as a whole wherever they stand together."""
    texts = [word.text for word in words]
    if not 1 < len(texts) <= MOST_WORDS or sum(map(str.isalpha, key)) < _SHORTEST:
        return False
    if not key.isprintable() or " " in key or not texts[0][:1].isalnum() or key[-1] in _SIGNS:
        return False
    if any(map(str.isdecimal, texts)) and any(marks & Mark.DATE for marks in map(_marks, texts)):
        return False  # "December 8"
    return not may_be_person(texts) and not _is_owned(words) and not _NUMBERED.search(key)


def _is_firm(words: Sequence[Word]) -> bool:
    """Return whether a title is a name and an everyday word: "Franklin Electric"."""
    texts = [word.text for word in words if word.text.isalpha()]
    if len(texts) != 2 or not _marks(texts[1]) & Mark.WORD:
        return False
    return known(texts[0].lower()) or _is_name(texts[0])


def may_be_person(texts: Sequence[str]) -> bool:
    """Return whether words may name persons: "Tom Collins", "Rosie and Jim", "the Carpenters"."""
    lower = [text.lower() for text in texts if text[0].isalpha() and text[0] not in "'’"]
    content = [word for word in lower if word not in _JOINTS]
    joint = len(content) < len(lower) or any(text in ("&", "+") for text in texts)
    named = [bool(listed_names(word) & _NAMES) or known(word) for word in content]
    if lower[:1] == ["the"]:
        return len(content) == 1 and bool(listed_names(content[0].removesuffix("s")) & _NAMES)
    small = texts[-1].islower() and texts[0][:1].isupper()  # "Boston ivy"
    if small or not content or not all(named):
        return False
    if len(content) > 2:
        return all(map(known, content))  # "Peter, Paul and Mary"
    return len(content) == 1 or joint or known(content[0])


def _marks(word: str) -> int:
    return Vocabulary.shipped().marks(word)


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
                yield text, Mark.SMALL if _ends_small(split(text, _CLITICS)) else 0
            elif kind in (_GROUP, _OBJECT):
                yield text, Mark.PLACE
