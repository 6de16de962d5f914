"""What a listed word is by itself, whatever stands around it: its reading.

Why it is here: a tagger that looks at neighbours lets one word decide what becomes of another, and
then no bound holds for either (exchanging one word for another of its part of speech changed a
neighbour's fate in 10.8 % of trials). A reading is a function of the word alone, decided once, from
public counts and lists, by whoever builds the bundle; the device only looks it up.
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
"""In the order all files and arrays use. The first four are open parts of speech. REFERENCE:
pronouns and prepositions. GRAMMAR: auxiliaries, determiners, conjunctions, particles. OTHER:
interjections, symbols and the rest. NAME: mostly met as a proper noun. NUMBER: number words and
ordinals. ORIGIN: nationalities, religions, ethnic groups. FACT: states somebody's health,
sexuality, politics, crime or money. CLITIC: "n't", "'s"."""

BY_TAG: Final = {
    **{tag: tag for tag in ("NOUN", "VERB", "ADJ", "ADV")},
    **dict.fromkeys(("PRON", "ADP"), "REFERENCE"),
    **dict.fromkeys(("AUX", "DET", "CCONJ", "SCONJ", "PART"), "GRAMMAR"),
    **dict.fromkeys(("INTJ", "X", "SYM", "PUNCT"), "OTHER"),
    "PROPN": "NAME",
    "NUM": "NUMBER",
}
"""What a word reads as that is mostly met as a part of speech."""

UNLISTED: Final = "UNLISTED"
"""In place of a reading, for a word that the bundle does not list."""


def look_up(readings: NDArray[np.uint8], ids: NDArray[np.int32]) -> NDArray[np.uint8]:
    """The readings of words.

    Args:
        readings: Ints1d (words,), places in `READINGS`; see `Bundle.readings`.
        ids: Ints1d (n,) of words, -1 for what is not listed.

    Returns:
        Ints1d (n,), places in ``(*READINGS, UNLISTED)``.
    """
    found: NDArray[np.uint8] = readings[ids]  # the last word's for -1, overwritten
    found[ids < 0] = len(READINGS)
    return found
