"""Policies: tables from each kind of word to one of three treatments.

A word passes, gets noise or is replaced by a random word. This is decided before anything is drawn,
and from the word's kind alone. The table belongs to the device: no bundle, and so no cloud, can let
names pass.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from sottovoce.core.errors import NotFound
from sottovoce.core.text.word_classes import READINGS, UNLISTED

__all__ = [
    "DEFAULT",
    "IDENTIFIER",
    "KINDS",
    "NAMES",
    "POLICIES",
    "PUNCTUATION",
    "Policy",
    "Treatment",
    "find",
]


class Treatment(enum.IntEnum):
    """The treatment of a word, numbered as on the wire. A larger number hides more."""

    PASS = 1
    """It leaves as it was typed."""
    NOISE = 2
    """The mechanism's noise: it comes out as another word of its class, or as itself."""
    DRAW = 3
    """A random one of the same kind and shape: what comes out is independent of it."""


IDENTIFIER: Final = "IDENTIFIER"
"""What holds a digit or an address, see `sottovoce.core.text.identifiers`."""
PUNCTUATION: Final = "PUNCTUATION"
NAMES: Final = ("", "PERSON", "PLACE", "ORGANISATION", "NAME")
"""What a found name is called in a report, in the order of `NameFinder`'s kinds."""

KINDS: Final = (*READINGS, UNLISTED, IDENTIFIER, PUNCTUATION, *NAMES[1:-1])
"""Every kind of word: how a listed one reads (as `readings.look_up` numbers it), or what else it
is."""

_DRAWN: Final = (*NAMES[1:], "NUMBER", "ORIGIN", UNLISTED, IDENTIFIER)
"""Drawn whatever the policy: noise would tell an attacker with a list of candidates too much."""
_FACTS: Final = "FACT"
"""Health, sexuality, politics, crime, money: in no policy do they pass."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A table from kind to treatment.

    Attributes:
        name: what settings call it.
        about: in a few words, for people.
        table: of every one of `KINDS`.
        context: whether the words around a word decide as well, see `personal`. Then the table says
            what a kind of word needs that the context makes personal, and nothing gets noise.

    >>> POLICIES["names"].table["NOUN"].name, POLICIES["content"].table["NOUN"].name
    ('PASS', 'NOISE')
    """

    name: str
    about: str
    table: Mapping[str, Treatment] = field(repr=False)
    context: bool = False

    def covers(self, other: Policy) -> bool:
        """Whether no kind of word is treated more lightly here than by ``other``.

        A policy that reads the context may let any word pass, so it covers no other.

        >>> POLICIES["all"].covers(POLICIES["content"])
        True
        """
        if other.context:
            return True  # every other policy draws what it may draw
        return not self.context and all(
            self.table[kind] >= treatment for kind, treatment in other.table.items()
        )

    def with_noise(self) -> tuple[str, ...]:
        """The kinds that get noise, in the order of `KINDS`."""
        return tuple(kind for kind in KINDS if self.table[kind] is Treatment.NOISE)


def _personal() -> Policy:
    table = dict.fromkeys(KINDS, Treatment.PASS) | dict.fromkeys(_DRAWN, Treatment.DRAW)
    about = "who the text is about, for conversations; the question stays"
    return Policy("personal", about, MappingProxyType(table), context=True)


def _policy(name: str, about: str, noise: Iterable[str]) -> Policy:
    table = dict.fromkeys(KINDS, Treatment.PASS)
    table |= dict.fromkeys((*noise, _FACTS), Treatment.NOISE)
    table |= dict.fromkeys(_DRAWN, Treatment.DRAW)
    table[PUNCTUATION] = Treatment.PASS
    return Policy(name, about, MappingProxyType(table))


POLICIES: Final[Mapping[str, Policy]] = {
    policy.name: policy
    for policy in (
        _personal(),
        _policy("names", "names, numbers and facts alone", ()),
        _policy("content", "content words as well", ("NOUN", "VERB", "ADJ", "ADV", "OTHER")),
        _policy("papers", "RAPT's four parts of speech", ("NOUN", "VERB", "REFERENCE")),
        _policy("all", "every word", KINDS),
    )
}
"""Every policy by its name. In all but `personal`, names, number words, origins, words not listed
and identifiers are drawn anew, and facts of health, sexuality, politics, crime and money get noise.
They differ in the rest. Under `personal` the context decides, and all else passes."""

DEFAULT: Final = "content"


def find(name: str) -> Policy:
    """The policy called ``name``.

    Raises:
        NotFound: there is none; the fix lists those there are.
    """
    if name not in POLICIES:
        raise NotFound("unknown policy", fix=f"use one of: {', '.join(POLICIES)}", subject="policy")
    return POLICIES[name]
