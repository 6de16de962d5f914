"""Makes up sentences that name people, places and organisations, and says where they do.

Why it is here: treebanks name few people, and hardly any whose name is a word of the language. The
sentences are our own (`mentions.json`, where each slot in braces stands for one of the patterns or
words listed under its name), the names those of Faker's lists for some sixty countries,
half of the time one that the device's list takes for an ordinary word.
"""

import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from numpy.random import Generator

from sottovoce.core.errors import NotReady

__all__ = ["Lists", "Mention", "Mentions", "fakers_lists"]

Mention = tuple[str, str]
"""A text and what it names: one of `names.KINDS`, or "?" where either answer will do."""

_SLOT: Final = re.compile(r"\{(\w+)\}")
_KINDS: Final = {
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
"""What the slots of a sentence name."""
_LATIN: Final = re.compile(r"[A-Za-z\u00c0-\u024f][A-Za-z\u00c0-\u024f'’. -]*")
_ORDINARY: Final = 0.5
"""Share of the names drawn among those that are ordinary words too."""


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
    """The lists in Faker's source, which are data; nothing of Faker runs.

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


def _providers(name: str) -> list[type]:
    try:
        package = importlib.import_module(f"faker.providers.{name}")
    except ImportError:
        raise NotReady(
            "the lists of names the sentences are filled with are Faker's, which is not installed",
            fix="pip install faker",
            subject="faker",
        ) from None
    modules = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return [importlib.import_module(f"{package.__name__}.{each}").Provider for each in modules]


def _joined(providers: Sequence[type], attribute: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for provider in providers:
        for name in sorted(vars(provider)):
            if re.fullmatch(attribute, name) and not isinstance(vars(provider)[name], property):
                found.update(dict.fromkeys(map(str, _flat(getattr(provider, name)))))
    return tuple(name for name in found if _LATIN.fullmatch(name))


def _flat(names: Any) -> Iterator[Any]:
    """Some lists are dictionaries with weights, some hold pairs of a name and its region."""
    for name in names:
        yield name[-1] if isinstance(name, tuple) else name


class Mentions:
    """Draws names and sentences.

    Args:
        lists: names of the world.
        ordinary: whether a word, in small letters, is an ordinary word to the device.
        words: ordinary nouns and adjectives, which names of organisations are made of.
        random: where all choices come from.
    """

    def __init__(
        self,
        lists: Lists,
        ordinary: Callable[[str], bool],
        words: Sequence[str],
        random: Generator,
    ) -> None:
        told = resources.files("sottovoce.models.names").joinpath("mentions.json")
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
        """A sentence in pieces, which put together are its text."""
        template = self._one(self._own["templates"])
        pieces: list[Mention] = []
        done = 0
        for slot in _SLOT.finditer(template):
            pieces += [(template[done : slot.start()], ""), (self.draw(slot[1]), _KINDS[slot[1]])]
            done = slot.end()
        return [*pieces, (template[done:], "")]

    def draw(self, slot: str) -> str:
        """What may stand in a slot of a sentence, "person" for instance."""
        way = self._ways.get(slot)
        return way() if way else self._any(*self._own[slot])

    def _any(self, *patterns: str, **drawn: str) -> str:
        """One of the patterns, its slots filled from left to right with what is drawn or given."""
        return _SLOT.sub(
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
