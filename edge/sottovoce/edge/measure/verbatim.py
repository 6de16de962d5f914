"""The share of all words of a text that leave as they were typed.

"87 of 100 words with noise are replaced" does not count the words that pass. A reader sees the
original of words that pass, and of words that were replaced by themselves. Public counts predict
their number.
"""

from __future__ import annotations

from collections.abc import Mapping

from sottovoce.core.bundle.levels import Level
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.policies import Policy, Treatment

__all__ = ["drawn", "verbatim"]


def verbatim(shares: Mapping[str, float], level: Level, mechanism: str, policy: Policy) -> float:
    """Return the share of all words of everyday text that leave as they were typed.

    A word that is drawn anew counts as hidden, because only chance can return the original.

    Args:
        shares: of running text by reading, see `Manifest.shares`.
        level: of the mechanism.
        mechanism: the name of a mechanism that goes by readings.
        policy: which readings pass, and which get noise.

    Raises:
        NotFound: there is no such mechanism.
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
    """Return the share of words that are replaced at random for their reading alone.

    Names with another reading, which the finder finds, come on top.
    """
    return sum(
        share for reading, share in shares.items() if policy.table[reading] is Treatment.DRAW
    )
