"""How much of a text leaves as it was typed: of all its words, not only of those with noise.

Why it is here: "87 of 100 words with noise are replaced" says nothing of the words that pass. What
a reader of a release sees as it was typed is words that pass and words that come back as
themselves, and public counts tell beforehand how many there will be.
"""

from __future__ import annotations

from collections.abc import Mapping

from sottovoce.core.bundle.levels import Level
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.policies import Policy, Treatment

__all__ = ["drawn", "verbatim"]


def verbatim(shares: Mapping[str, float], level: Level, mechanism: str, policy: Policy) -> float:
    """The share of all words of everyday text that leave as they were typed.

    A word that is drawn anew counts as hidden: it comes out as it was by chance alone.

    Args:
        shares: of running text by reading, see `Manifest.shares`.
        level: of the mechanism.
        mechanism: the name of one that goes by readings.
        policy: which readings pass, and which get noise.

    Raises:
        NotFound: no such mechanism.
    """
    made = registry.make(mechanism, level, policy.with_noise())
    found = 0.0
    for reading, share in shares.items():
        if policy.table[reading] is Treatment.PASS:
            found += share
        elif policy.table[reading] is Treatment.NOISE:
            within = level.classes.get(made.word_class(reading, reading == "CLITIC"))
            found += share * (1 - (within.replaced if within else level.replaced))
    return found


def drawn(shares: Mapping[str, float], policy: Policy) -> float:
    """The share of all words that a random one replaces for their reading alone; names that read
    as something else, which the finder finds, come on top."""
    return sum(
        share for reading, share in shares.items() if policy.table[reading] is Treatment.DRAW
    )
