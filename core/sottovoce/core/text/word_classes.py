"""Readings: the class of a listed word by itself, whatever its context.

A tagger that looks at neighbours lets one word decide the treatment of another. Then no privacy
bound holds for either. In 10.8 % of trials, exchanging a word for another of its part of speech
changed a neighbour's treatment. A reading depends on the word alone. The builder of the bundle
decides it once, from public counts and lists, and the device only looks it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # commands that but list policies need no NumPy
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BY_TAG", "READINGS", "UNLISTED", "look_up"]

READINGS: Final = (
    *("NOUN", "VERB", "ADJ", "ADV", "REFERENCE", "GRAMMAR", "OTHER"),
    *("NAME", "NUMBER", "ORIGIN", "FACT", "CLITIC"),
)
"""The readings, in the order of all files and arrays.

The first four are open parts of speech. REFERENCE: pronouns and prepositions. GRAMMAR: auxiliaries,
determiners, conjunctions, particles. OTHER: interjections, symbols and the rest. NAME: mostly met
as a proper noun. NUMBER: number words and ordinals. ORIGIN: nationalities, religions, ethnic
groups. FACT: states a person's health, sexuality, politics, crime or money. CLITIC: "n't", "'s".
"""

BY_TAG: Final = {
    **{tag: tag for tag in ("NOUN", "VERB", "ADJ", "ADV")},
    **dict.fromkeys(("PRON", "ADP"), "REFERENCE"),
    **dict.fromkeys(("AUX", "DET", "CCONJ", "SCONJ", "PART"), "GRAMMAR"),
    **dict.fromkeys(("INTJ", "X", "SYM", "PUNCT"), "OTHER"),
    "PROPN": "NAME",
    "NUM": "NUMBER",
}
"""The reading of a word by its commonest part of speech."""

UNLISTED: Final = "UNLISTED"
"""Replaces a reading for a word that the bundle does not list."""


def look_up(readings: NDArray[np.uint8], ids: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return the readings of words.

    Args:
        readings: Ints1d (words,), places in `READINGS`; see `Bundle.readings`.
        ids: Ints1d (n,) of words, -1 for unlisted words.

    Returns:
        Ints1d (n,), places in ``(*READINGS, UNLISTED)``.
    """
    found: NDArray[np.uint8] = readings[ids]  # the last word's for -1, overwritten
    found[ids < 0] = len(READINGS)
    return found
