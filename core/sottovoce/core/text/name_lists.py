"""Public lists of names: which of them hold a word.

The finder that reads the sentence learns what a list says of a word, because it cannot tell a rare
surname from a rare noun by its letters. A list alone decides nothing: many surnames are also words,
and most names of the world are in no list. The file ships with the device, so no provider can take
a name out of it. `sotto-models vocabulary --names` builds it.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from sottovoce.core.text.vocabulary import Vocabulary

FILE: Final = "names.en.bin"
"""The lists, in the form of a `Vocabulary`."""


class Listed:
    """The lists, as bits of a number."""

    SURNAME: Final = 1
    USUAL_SURNAME: Final = 2
    """One of the commonest."""
    GIVEN: Final = 4
    USUAL_GIVEN: Final = 8
    """A given name of the census of the United States."""
    TOWN: Final = 16
    LARGE_CITY: Final = 32
    PART: Final = 64
    """A word of a town's name of several words."""


def listed(word: str) -> int:
    """Return the `Listed` bits of a word in any case, with or without accents; 0 if in no list.

    Raises:
        DataLoss: the file is missing or damaged.
    """
    if not word.isascii():
        letters = unicodedata.normalize("NFKD", word)
        word = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return Vocabulary.in_file(FILE).marks(word)
