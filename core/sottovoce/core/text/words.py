"""Checks a text, and cuts it into words without losing or skipping any part.

All inputs of the agent (a file, a pipe, an app) refuse the same texts with the same messages.
Messages name places, never content, because they end up in logs.

Every later step decides word by word what may leave the device. Words are cut as in Universal
Dependencies, because the taggers learned from it. The bundle lists the endings that it cuts off
(she|'ll, do|n't). Unlike there, hyphenated words are cut, because vocabularies of language models
hold the parts. Only white space lies between two words, so a document can be put together again
exactly. A word has no white space inside, unless it is spelled out.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text import identifiers

__all__ = [
    "LARGEST_TEXT",
    "NOTHING",
    "Context",
    "Kind",
    "Word",
    "check_text",
    "decode",
    "iter_words",
    "split",
]


class Kind(enum.Enum):
    """The kind of a word, by its form and never by its meaning."""

    WORD = "word"
    """Letters, symbols, emoji, control characters: all text of no other kind."""
    IDENTIFIER = "identifier"
    """A number, address, link, path, code or spelled name; see `identifiers`."""
    PUNCTUATION = "punctuation"
    """One character of a Unicode category P*, alone or repeated. The only kind with no content."""


_WORD, _IDENTIFIER, _PUNCTUATION = Kind  # read four times faster than of an enum


class Word(NamedTuple):
    """A word and its place: `document[start:end] == text`, in code points."""

    text: str
    start: int
    end: int
    kind: Kind
    clitic: bool = False
    """Whether it is one of the clitics, as a rule attached to the word before it."""


class _Classes(dict[int, str]):
    """Maps a code point to a one-letter class, computed at the first use."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if character.isspace():
            found = " "
        elif character in "'’":
            found = "'"
        elif character == ".":
            found = "."
        elif category[0] == "P":
            found = "p"
        elif _IDEOGRAPH.match(character):
            found = "i"
        elif category[0] == "S":
            found = "y"
        elif category[0] == "M" or category == "Cf":
            found = "m"  # marks and joiners belong to what they follow
        else:
            found = "l"  # letters, and whatever else there is: controls, private use, surrogates
        self[code] = found
        return found


_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_classes = _Classes()

_new = tuple.__new__  # a third of the time that a named tuple's own takes

_PLAIN = re.compile(r"(?<!\S)([A-Za-z]++)([,.!?;:]?)(?!\S)")
"""Letters alone, or with one mark after them: most of an English text; the cut is the same."""

# Over classes, not characters: one letter stands for one character of the document.
_TOKEN = re.compile(
    r"(?P<dotted>(?:lm*\.){2,}+(?:lm*(?![lm.]))?)"  # U.S., a.m., e.g
    r"|(?P<word>[lm]++(?:'[lm]++)*+)"
    r"|(?P<symbol>im*+|y[ym]*+)"  # an ideograph, a run of emoji
    r"|(?P<ending>'[lm]++)"
    r"|(?P<punctuation>[p.'])"
)


def split(document: str, clitics: Sequence[str] = ()) -> list[Word]:
    """Return the words of `document` in order; only white space lies between them.

    White space is defined by `str.isspace`. `clitics` are endings in small letters that are cut off
    as separate words; both ' and ’ match an apostrophe in them. Any `str` is accepted, lone
    surrogates included. Time grows linearly with the text.

    >>> [word.text for word in split("She'll pay £1,200.50 to well-known Bo.", ["'ll"])]
    ['She', "'ll", 'pay', '£1,200.50', 'to', 'well', '-', 'known', 'Bo', '.']
    """
    return list(iter_words(document, clitics))


def iter_words(document: str, clitics: Sequence[str] = ()) -> Iterator[Word]:
    """Return the same words one by one, for documents whose words would fill the memory."""
    stretches = identifiers.spelled(document)
    if (first := next(stretches, None)) is None:  # most texts
        return _plain_and_others(document, 0, len(document), clitics)
    return _with_spelled(document, chain([first], stretches), clitics)


def _with_spelled(
    document: str, stretches: Iterable[tuple[int, int]], clitics: Sequence[str]
) -> Iterator[Word]:
    done = 0
    for first, last in stretches:
        yield from _plain_and_others(document, done, first, clitics)
        yield from _between(document, first, last, clitics)
        done = last
    yield from _plain_and_others(document, done, len(document), clitics)


def _plain_and_others(
    document: str, start: int, end: int, clitics: Sequence[str]
) -> Iterator[Word]:
    """Yield the words of a part of ``document`` between white space or the document's ends."""
    done = start
    for plain in _PLAIN.finditer(document, start, end):
        _, (first, last), (_, stop) = plain.regs
        if first - done > 1:  # more than white space
            yield from _between(document, done, first, clitics)
        yield _new(Word, (document[first:last], first, last, _WORD, False))
        if stop > last:
            yield _new(Word, (document[last:stop], last, stop, _PUNCTUATION, False))
        done = stop
    yield from _between(document, done, end, clitics)


def _between(document: str, start: int, end: int, clitics: Sequence[str]) -> Iterator[Word]:
    """Yield the words of a part of ``document`` between white space or the document's ends."""
    done = start
    for first, last in identifiers.find(document, start, end):
        yield from _scan(document, done, first, clitics)
        yield Word(document[first:last], first, last, _IDENTIFIER)
        done = last
    yield from _scan(document, done, end, clitics)


def _scan(document: str, start: int, end: int, clitics: Sequence[str]) -> Iterator[Word]:
    classes = document[start:end].translate(_classes)
    position = start
    while token := _TOKEN.search(classes, position - start):  # it skips only white space
        first, position = start + token.start(), start + token.end()
        text = document[first:position]
        kind = token.lastgroup
        if kind == "word" and not text.isalnum():  # hardly any: most have no apostrophe
            yield from _without_clitics(text, first, clitics)
        elif kind == "ending" and _plain(text) in clitics:
            yield Word(text, first, position, _WORD, clitic=True)
        elif kind in ("ending", "punctuation"):
            position = first + 1
            while position < end and document[position] == document[first]:
                position += 1
            yield Word(document[first:position], first, position, _PUNCTUATION)
        else:
            yield Word(text, first, position, _WORD)


def _without_clitics(text: str, start: int, clitics: Sequence[str]) -> list[Word]:
    end = len(text)
    plain = _plain(text)
    pieces: list[Word] = []
    while end:
        ending = max((c for c in clitics if plain.endswith(c, 0, end)), key=len, default="")
        if not ending:
            break
        cut = end - len(ending)
        pieces.append(Word(text[cut:end], start + cut, start + end, _WORD, clitic=True))
        end = cut
    if end:
        pieces.append(Word(text[:end], start, start + end, _WORD))
    return pieces[::-1]


def _plain(text: str) -> str:
    """Return small letters with plain apostrophes, at the same length."""
    lowered = text.lower()
    return (lowered if len(lowered) == len(text) else text).replace("’", "'")


NOTHING: Final = ""
"""Stands for the word before the first word of a sentence."""

_MARK = Kind.PUNCTUATION  # read four times faster than of an enum

_ENDS: Final = frozenset(".!?:;\N{HORIZONTAL ELLIPSIS}\N{IDEOGRAPHIC FULL STOP}")


class Context:
    """Goes through one document, window after window."""

    def __init__(self) -> None:
        self._last = NOTHING

    def before(self, words: Iterable[Word], forms: Iterable[str]) -> list[str]:
        """Return for each of the next words the form of the one before it.

        Args:
            words: of the document, in order.
            forms: the form of each word; punctuation's is ignored.
        """
        found: list[str] = []
        last = self._last
        for (text, _, _, kind, _), form in zip(words, forms, strict=True):
            found.append(last)
            if kind is _MARK:
                if text[0] in _ENDS:
                    last = NOTHING
            elif form.isalnum() or any(map(str.isalnum, form)):
                last = form
        self._last = last
        return found


LARGEST_TEXT = 1 << 20
"""The most bytes of one text in UTF-8."""

_TEXT = "text"


def decode(data: bytes, name: str, *, begins: bool = True) -> str:
    """Return ``data`` as text; a byte-order mark at the start is dropped.

    Args:
        data: what was read.
        name: where it came from, for the message ("notes.txt").
        begins: whether it is the beginning of a file; later on U+FEFF is a character like others.

    Raises:
        InvalidInput: not UTF-8; the message gives the offset of the first wrong byte.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{name} is not UTF-8: byte {error.start} cannot be decoded",
            fix="convert it with `iconv -f ENCODING -t UTF-8`",
            subject=_TEXT,
        ) from None  # the cause would quote the text
    return text.removeprefix("\ufeff") if begins else text


def check_text(text: str) -> None:
    """Refuse a string that is not a valid text.

    Raises:
        InvalidInput: empty or white space only, more than 1 MiB in UTF-8, or a NUL in it.
    """
    if not text or text.isspace():
        raise InvalidInput("the text is empty", fix="send at least one word", subject=_TEXT)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > LARGEST_TEXT:
        raise InvalidInput(
            f"the text has {size} bytes, at most {LARGEST_TEXT} are taken",
            fix="cut it into smaller texts",
            subject=_TEXT,
        )
    nul = text.find("\0")
    if nul >= 0:
        raise InvalidInput(
            f"the text looks binary: character {nul} is NUL",
            fix="extract the text from the file first",
            subject=_TEXT,
        )
