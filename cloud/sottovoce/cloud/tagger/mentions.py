"""Makes up sentences that name people, places and organisations, and says where they do.

Why it is here: treebanks name few people, and hardly any whose name is a word of the language. The
sentences are our own (`mentions.json`), the names those of Faker's lists for some sixty countries,
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
        told = resources.files("sottovoce.cloud.tagger").joinpath("mentions.json")
        self._own: dict[str, list[str]] = json.loads(told.read_text("utf-8"))
        self._random = random
        self._words = words
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
        self._slots: dict[str, tuple[str, Callable[[], str]]] = {
            "first": ("PERSON", self._first),
            "last": ("PERSON", self._last),
            "full": ("PERSON", self._full),
            "person": ("PERSON", self.person),
            "initial": ("PERSON", self._initial),
            "title": ("?", lambda: self._of("titles")),
            "city": ("PLACE", lambda: self._name("cities")),
            "country": ("PLACE", lambda: self._name("countries")),
            "place": ("PLACE", self.place),
            "street": ("PLACE", self._street),
            "address": ("PLACE", self._address),
            "org": ("ORGANISATION", self.organisation),
            "firm": ("ORGANISATION", self._partners),
            "university": ("ORGANISATION", self._university),
            "school": ("ORGANISATION", self._school),
            "hospital": ("ORGANISATION", self._hospital),
            "team": ("ORGANISATION", self._team),
            "agency": ("ORGANISATION", lambda: self._of("agencies")),
            "newspaper": ("ORGANISATION", self._newspaper),
            "hotel": ("ORGANISATION", self._hotel),
            "restaurant": ("ORGANISATION", self._restaurant),
            "thing": ("OTHER", lambda: self._of("things")),
            "product": ("OTHER", lambda: self._of("products")),
            "number": ("", self._number),
            "date": ("", self._number),
            "mail": ("", lambda: "someone@example.com"),
        }

    def sentence(self) -> list[Mention]:
        """A sentence in pieces, which put together are its text."""
        template = self._of("templates")
        pieces: list[Mention] = []
        done = 0
        for slot in _SLOT.finditer(template):
            kind, draw = self._slots[slot[1]]
            pieces += [(template[done : slot.start()], ""), (draw(), kind)]
            done = slot.end()
        return [*pieces, (template[done:], "")]

    def person(self) -> str:
        """A first name, a last name, or both."""
        return self._any(self._first, self._last, self._full, self._full)

    def place(self) -> str:
        """A town, country, landscape or street."""
        return self._any(
            lambda: self._name("cities"),
            lambda: self._name("countries"),
            lambda: self._of("places"),
            self._landscape,
            self._street,
        )

    def organisation(self) -> str:
        """A company, public body, team, school, or the like."""
        return self._any(
            lambda: self._name("firms"),
            lambda: self._name("firms"),
            self._company,
            self._company,
            self._company,
            self._partners,
            self._university,
            self._school,
            self._hospital,
            self._team,
            self._newspaper,
            self._society,
            lambda: self._of("agencies"),
        )

    def _of(self, name: str) -> str:
        return self._one(self._own[name])

    def _name(self, name: str) -> str:
        ordinary = self._random.random() < _ORDINARY
        return self._one(self._ordinary[name] if ordinary else self._names[name])

    def _one(self, names: Sequence[str]) -> str:
        return names[int(self._random.integers(len(names)))]

    def _any(self, *ways: Callable[[], str]) -> str:
        return ways[int(self._random.integers(len(ways)))]()

    def _word(self) -> str:
        return self._one(self._words).capitalize()

    def _first(self) -> str:
        first = self._name("first")
        return f"{first}-{self._name('first')}" if self._random.random() < 0.03 else first

    def _last(self) -> str:
        last = self._name("last")
        chance = self._random.random()
        if chance < 0.04:
            return f"{last}-{self._name('last')}"
        if chance < 0.08:
            particle = self._one(("van", "van der", "de", "de la", "von", "di", "al", "bin", "den"))
            return f"{particle} {last}"
        return last

    def _full(self) -> str:
        middle = self._any(
            *[lambda: " "] * 6,
            lambda: f" {self._initial()}. ",
            lambda: f" {self._name('first')} ",
            lambda: f" {self._name('last')} ",
        )
        return f"{self._first()}{middle}{self._last()}"

    def _initial(self) -> str:
        return self._one("ABCDEFGHIJKLMNOPRSTVWZ")

    def _number(self) -> str:
        return str(int(self._random.integers(1, 2000)))

    def _landscape(self) -> str:
        return self._any(
            lambda: f"{self._of('land')} {self._any(self._word, self._last)}",
            lambda: f"{self._any(self._word, self._last)} {self._of('ground')}",
            lambda: f"the {self._any(self._word, self._last)} {self._of('ground')}",
            lambda: (
                f"{self._one(('North', 'South', 'East', 'West', 'New', 'Old', 'Little', 'Upper'))} "
                f"{self._any(self._word, self._last, lambda: self._name('cities'))}"
            ),
        )

    def _street(self) -> str:
        return self._any(
            lambda: f"{self._of('walks')} {self._of('streets')}",
            lambda: f"{self._any(self._word, self._last)} {self._of('streets')}",
            lambda: self._name("streets"),
            lambda: f"{self._of('foreign_streets')} {self._of('links')} {self._last()}",
            lambda: f"{self._of('foreign_streets')} {self._last()}",
        )

    def _address(self) -> str:
        room = self._any(lambda: "", lambda: f", {self._of('rooms')} {self._number()}")
        state = self._any(lambda: "", lambda: f", {self._of('states')} {self._number()}")
        return self._any(
            lambda: f"{self._number()} {self._street()}{room}, {self._name('cities')}{state}",
            lambda: (
                f"{self._number()} {self._street()}{room.replace(',', '')} "
                f"{self._name('cities')}{state.replace(',', '')}"
            ),
            lambda: f"{self._street()} {self._number()}, {self._number()} {self._name('cities')}",
            lambda: f"{self._of('rooms')} {self._number()}, {self._name('cities')}{state}",
            lambda: f"{self._number()} {self._street()}",
        )

    def _company(self) -> str:
        core = self._any(
            self._word,
            lambda: f"{self._word()} {self._word()}",
            self._last,
            lambda: self._name("cities"),
            lambda: f"{self._name('first')}'s",
        )
        return self._any(
            lambda: f"{core} {self._of('trades')}",
            lambda: f"{core} {self._of('trades')}",
            lambda: f"{core} {self._of('suffixes')}",
            lambda: f"{core} {self._of('trades')} {self._of('suffixes')}",
            lambda: f"the {core} {self._of('trades')}",
            lambda: core,
        )

    def _partners(self) -> str:
        return self._any(
            lambda: f"{self._last()}, {self._last()} and {self._last()}",
            lambda: f"{self._last()}, {self._last()} & {self._last()}",
            lambda: f"{self._last()} & {self._last()}",
            lambda: f"{self._last()} and {self._last()}",
            lambda: f"{self._last()}-{self._last()}",
        )

    def _university(self) -> str:
        return self._any(
            lambda: f"the University of {self._name('cities')}",
            lambda: f"{self._any(self._last, lambda: self._name('cities'))} University",
            lambda: f"{self._any(self._last, lambda: self._name('cities'))} State",
            lambda: f"{self._any(self._last, lambda: self._name('cities'))} College",
            lambda: f"{self._of('walks')} State University",
        )

    def _school(self) -> str:
        name = self._any(self._last, lambda: self._of("walks"), lambda: self._name("cities"))
        return f"{name} {self._one(('High School', 'Elementary', 'School', 'High', 'Academy'))}"

    def _hospital(self) -> str:
        return self._any(
            lambda: f"{self._name('cities')} General Hospital",
            lambda: f"{self._last()} Memorial Hospital",
            lambda: f"St. {self._name('first')}'s",
            lambda: f"St. {self._name('first')} Hospital",
            lambda: f"{self._word()} Medical Center",
        )

    def _team(self) -> str:
        return self._any(
            lambda: f"the {self._of('animals')}",
            lambda: f"{self._name('cities')} {self._of('animals')}",
            lambda: f"the {self._name('cities')} {self._of('animals')}",
            lambda: self._of("animals"),
            lambda: f"Real {self._name('cities')}",
        )

    def _newspaper(self) -> str:
        return self._any(
            lambda: f"the {self._name('cities')} {self._of('papers')}",
            lambda: f"{self._name('cities')} {self._of('papers')}",
            lambda: f"the {self._of('papers')}",
            lambda: f"The {self._word()} {self._of('papers')}",
        )

    def _hotel(self) -> str:
        return self._any(
            lambda: f"the {self._word()} {self._one(('Hotel', 'Inn', 'Lodge', 'Suites'))}",
            lambda: f"Hotel {self._last()}",
            lambda: f"the {self._last()}",
            lambda: f"{self._word()} {self._one(('Inn', 'Resort', 'House', 'Motel'))}",
        )

    def _restaurant(self) -> str:
        return self._any(
            lambda: f"{self._name('first')}'s",
            lambda: f"{self._last()}'s",
            lambda: f"The {self._word()} {self._word()}",
            lambda: f"{self._word()} {self._one(('Cafe', 'Grill', 'Kitchen', 'Pizza', 'Bar'))}",
            lambda: f"{self._word()} & {self._word()}",
        )

    def _society(self) -> str:
        trade = self._one(("Society", "Association", "Institute", "Council", "Foundation", "Union"))
        return self._any(
            lambda: f"the {self._name('cities')} {self._word()} {trade}",
            lambda: f"the {trade} of {self._word()}",
            lambda: f"the {self._word()} {trade}",
            lambda: f"the National {self._word()} {trade}",
            lambda: f"the {self._last()} {trade}",
            lambda: f"the Bank of {self._name('countries')}",
        )
