"""A random identifier in the place of a true one: the same shape, and nothing else of it."""

import re
import string
import unicodedata
from typing import Final

import numpy as np

from sottovoce.core.privacy.noise import Random
from sottovoce.core.text.identifiers import has_number

__all__ = ["TOP_LEVELS", "replace"]


TOP_LEVELS: Final = ("com", "org", "net", "info")
"""What the last label of a host is drawn from, whatever it was."""

_SCHEME = re.compile(r"(?:[a-z][a-z+\-]{0,15}://(?:www\.)?|www\.)", re.IGNORECASE)
_PATH = re.compile(r"[/?#]")
_LAST_LABEL = re.compile(r"\.([^\W\d_]{2,})(?=:\w*$|$)")


def replace(text: str, random: Random) -> str:
    """A random identifier of the same shape as `text`.

    Numbers of any script become random ASCII digits, letters of any script random ASCII letters of
    the same case, ASCII punctuation and currency signs stay, anything else becomes a random small
    letter. Every draw is uniform and independent of the true character; a draw that happens to
    equal it stays, since rejecting it would look at the true one again. The last label of a mail
    or web host is drawn from `TOP_LEVELS`; a scheme ("https://", "www.") stays.

    What leaks: the length, the case, where digits and punctuation stand, and the scheme.
    """
    kept = _SCHEME.match(text)
    scheme = kept[0] if kept else ""
    rest = text[len(scheme) :]
    authority = _PATH.split(rest, maxsplit=1)[0]
    label = _LAST_LABEL.search(authority)
    if label is None or has_number(label[1]):  # "²" is no digit to a regular expression
        return scheme + _scramble(rest, random)
    top = TOP_LEVELS[_below(len(TOP_LEVELS), 1, random)[0]]
    before, after = authority[: label.start(1)], rest[label.end(1) :]
    return scheme + _scramble(before, random) + top + _scramble(after, random)


def _scramble(text: str, random: Random) -> str:
    # Both arrays are drawn for every character: the stream then advances by the length alone.
    digits, letters = _below(10, len(text), random), _below(26, len(text), random)
    return "".join(map(_same_shape, text, digits, letters))


def _below(end: int, n: int, random: Random) -> list[int]:
    """``n`` whole numbers, uniform on 0 .. end - 1 but for a part in 2**53 / end."""
    drawn: list[int] = (random.random((n,)) * end).astype(np.int64).tolist()
    return drawn


def _same_shape(character: str, digit: int, letter: int) -> str:
    if character in string.punctuation:
        return character
    category = unicodedata.category(character)
    if category[0] == "N":
        return string.digits[digit]
    if category == "Sc":
        return character
    if category in ("Lu", "Lt"):
        return string.ascii_uppercase[letter]
    return string.ascii_lowercase[letter]
