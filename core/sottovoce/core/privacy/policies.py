"""How a text is to be privatised: policies, settings, and the owner's limits.

A policy is a table from each kind of word to one of three treatments: a word passes, gets noise or
is replaced by a random word. This is decided before anything is drawn, and from the word's kind
alone. The table belongs to the device: no bundle, and so no cloud, can let names pass.

A setting names level, mechanism and policy. The commands' help, the owner's configuration and the
builder use the same names. A bundle's manifest defines the levels.

The owner's limits hold for every bundle, app and command. The provider sets the names and numbers
of levels, and an app asks for a level by name. The limits apply to both. They are enforced where
the noise is drawn.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from sottovoce.core.errors import NotFound, NotReady
from sottovoce.core.privacy import mechanisms
from sottovoce.core.text.word_classes import READINGS, UNLISTED


class Treatment(enum.IntEnum):
    """The treatment of a word, numbered as on the wire. A larger number hides more."""

    PASS = 1
    """It leaves as it was typed."""
    NOISE = 2
    """The mechanism's noise: it comes out as another word of its class, or as itself."""
    DRAW = 3
    """A random one of the same kind and shape: what comes out is independent of it."""


IDENTIFIER: Final = "IDENTIFIER"
"""What holds a digit or an address, see `sottovoce.core.text.words`."""
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


LEVELS: Final = ("strong", "balanced", "light")
"""Levels that every bundle is built with, from the strongest on."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How to privatise: names that the bundle's manifest resolves.

    Attributes:
        level: a calibrated protection level.
        mechanism: a versioned name.
        policy: which words are protected, and how.
    """

    level: str = "balanced"
    mechanism: str = mechanisms.DEFAULT
    policy: str = DEFAULT


LARGEST_ETA: Final = 100.0
"""Unless the owner says otherwise. The lightest named level of the default bundle has 76."""

LEAST_POLICY: Final = "personal"
"""Unless the owner says otherwise. Conversations use it; each other policy lets less pass."""


@dataclass(frozen=True, slots=True)
class PrivacyLimits:
    """The owner's limits.

    Attributes:
        largest_eta: no word gets noise of a larger eta; without a number there is no limit.
        least_policy: no kind of word is treated more lightly than by the policy of this name.
    """

    largest_eta: float = math.inf
    least_policy: str = LEAST_POLICY

    def check_etas(self, *etas: float) -> None:
        """Check that the owner allows a level with these etas.

        Raises:
            NotReady: one is too large or not a number.
        """
        # Written so that NaN is refused.
        if beyond := [eta for eta in etas if not eta <= self.largest_eta]:
            raise NotReady(
                f"the level has eta {beyond[0]:.4g}, and the owner of this device allows "
                f"{self.largest_eta:g} at most",
                fix="take a stronger level, or raise privacy.largest_eta in the configuration",
                subject="privacy.largest_eta",
            )

    def check_policy(self, policy: Policy) -> None:
        """Check that the owner allows the policy.

        Raises:
            NotReady: it treats some kind of word more lightly than `least_policy`.
        """
        if not policy.covers(find(self.least_policy)):
            raise NotReady(
                f"the policy {policy.name!r} lets words pass that {self.least_policy!r}, the least "
                "that the owner of this device allows, does not",
                fix="take a stronger policy, or change privacy.least_policy in the configuration",
                subject="privacy.least_policy",
            )
