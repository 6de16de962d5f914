"""Checks a text, and cuts it into words without losing or skipping any part.

All inputs of the agent (a file, a pipe, an app) refuse the same texts with the same messages.
Messages name places, never content, because they end up in logs.

Every later step decides word by word what may leave the device. Words are cut as in Universal
Dependencies, because the taggers learned from it. The bundle lists the endings that it cuts off
(she|'ll, do|n't). Unlike there, hyphenated words are cut, because vocabularies of language models
hold the parts. Only white space lies between two words, so a document can be put together again
exactly. A word has no white space inside, unless it is spelled out.

Identifiers must never pass: addresses, links, numbers, codes and spelled names. An identifier has
no neighbours in meaning, so d_X-privacy does not apply to it. It is found by its form alone and
replaced by a random one of the same form. The search errs on the safe side: a sentence glued to a
number is taken whole rather than leaked in part.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.plain_letters import decoded, without_fillers

_URL = re.compile(
    r"(?<![^\W\d_])(?:(?:https?|ftp)://|www\.)(?=[^\W_]|\[)[^\s<>\"“”«»]*+", re.IGNORECASE
)
_URL_TAIL: Final = ".,;:!?'\"’*_)]}>…"

IDEOGRAPHS: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Ideographs, as a range for regular expressions."""
UNSPACED: Final = f"\u3040-\u30ff{IDEOGRAPHS}"
"""Scripts that write words without spaces: kana and ideographs, likewise."""

# A piece is a run without white space, brackets, quotes, dashes and unspaced scripts. Full stops
# and hyphens join only when single, commas only between digits. Each character is looked at once,
# which keeps the scan linear whatever the text.
_PIECE = re.compile(
    rf"(?:[^\s.,\-()\[\]{{}}<>\"'`“”„‘’‚«»‹›–—―…!?;|*{UNSPACED}]"
    r"|(?<!\.)\.(?!\.)|(?<!-)-(?!-)|(?<=\d),(?=\d)"
    # Queries and fragments of links without a scheme: example.org/find?name=x
    r"|(?<=\w)\?(?=\w+=))++"
)
_MAY_BE = re.compile(r"[\d@_\\]|[./+=]\w|//\w|[^\x00-\x7f]|-[A-Z]{4}")
_AMOUNT = re.compile(r"[-+$€£]?\d+(?:\.\d+)?%?")
_CELL = re.compile(
    rf"{_AMOUNT.pattern}|[A-Za-z]{{0,6}}-?\d[\w:-]*|\d{{1,4}}(?:[./-]\d{{1,4}}){{2}}"
)
_NUMBER = re.compile(r"[-+$€£]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+,\d+)%?")
"""A number with groups of three digits, or with a decimal comma."""
_ONE = re.compile(r"-?\d{1,3}\.\d{3,},-?\d{1,3}\.\d{3,}|[A-Za-z]{0,6}\d{2,}(?:,\d{3,})+")
"""A place on a map, and digits of a card, an account or a telephone in groups."""
_FEWEST_DIGITS: Final = 8
_GLUED = re.compile(r",[^\W\d]")
_LEAD: Final = ".,:;-_%&=?^|#"
_TAIL: Final = ".,:;-_@&=?^|#/\\"
_DOTTED = re.compile(
    r"(?:(?<=[^\W_][^\W_])\.|(?<=[^\W_])\.(?=[^\W\d_]{2}))([^\W\d_]++)(?=[/:?#]|$)"
)
_PATH = re.compile(r"~?/[\w.\-]+/|~/\w|\w*://\w")
_ALPHANUMERIC = re.compile(r"[^\W_]")
_ASSIGNED = re.compile(r"\w=+\w")
_CODE_IN_GROUPS = re.compile(r"[A-Z]{4,}(?:-[A-Z]{4,}){2,}")
_MIXED_CASE = re.compile(r"[a-z][A-Z]")
_SHORTEST_KEY: Final = 20

# A letter or digit that stands alone, with its combining marks. Unspaced scripts and Hangul write
# whole words so.
_MARKS: Final = "".join(
    mark for mark in map(chr, range(0x300, 0x3100)) if unicodedata.category(mark)[0] == "M"
)
_SINGLE: Final = rf"[^\W_{UNSPACED}\uac00-\ud7af][{_MARKS}]*+(?!\w)"
_BLANK: Final = r"[^\S\n\r\v\f\x1c-\x1e\x85\u2028\u2029]{0,3}"
_SPELLED = re.compile(
    rf"(?<!\w)(?<!\w['’]){_SINGLE}"
    rf"(?P<joiner>{_BLANK}(?:[-‐‑‒–—―−.·•]{_BLANK})?|,{_BLANK}|[*/|~])"
    rf"{_SINGLE}(?:(?P=joiner)(?P<last>{_SINGLE}))++(?:(?<!\s\w)(?=(?P=joiner))\.)?"
)
_FEWEST, _FEWEST_WITH_COMMAS, _MOST = 3, 4, 200
_SPELLED_PART = re.compile(rf"{_SINGLE}(?:[\W_]{{1,7}}{_SINGLE}){{0,{_MOST - 1}}}\.?")


def find_identifiers(
    document: str, start: int = 0, end: int | None = None
) -> list[tuple[int, int]]:
    """Return the spans of the identifiers in `document[start:end]`, sorted and apart.

    Spans are in code points of `document`. Each text between them must begin and end with white
    space.

    Identifiers are mail addresses, links, bare domains and file names, @names, paths,
    names_with_underscores and settings=made. A number of any script (Unicode categories Nd, Nl, No)
    is one too, together with the letters and inner punctuation joined to it.

    Keys without a digit are identifiers where cutting them into words could leave a part in the
    clear: base64 with its signs, and capitals in equal groups (ABCD-EFGH-IJKL). So are spelled
    names, see `spelled_names`; these alone may hold white space. Time grows linearly with the text.
    """
    spans: list[tuple[int, int]] = []
    done, end = start, len(document) if end is None else end
    for link in _URL.finditer(document, start, end):
        spans += _find_in_pieces(document, done, link.start())
        done = link.start() + len(link[0].rstrip(_URL_TAIL))
        spans.append((link.start(), done))
    spans += _find_in_pieces(document, done, end)
    letters = [*_find_spelled(document, start, end)]
    return _with(document, spans, letters) if letters else spans


def spelled_names(document: str) -> Iterator[tuple[int, int]]:
    """Return the stretches of a document with spelled names: M-I-A, "J. o. n. e. s".

    A spelled name is three or more single letters, and any single digits between them, with the
    same joiner throughout. The joiner is blanks, a dash or dot with or without blanks around it, or
    one of ``* / | ~``. With commas it takes four letters, as three are most often variables. A
    stretch begins and ends at white space, so the stretches can be cut into words by themselves.
    """
    begin = stop = 0
    for run in _runs(document, 0, len(document)):
        first, last = run.span()
        if first >= stop:
            if stop:
                yield begin, stop
            begin = first
            while begin > stop and not document[begin - 1].isspace():
                begin -= 1
        stop = max(stop, last)
        while stop < len(document) and not document[stop].isspace():
            stop += 1
    if stop:
        yield begin, stop


def is_spelled(text: str) -> bool:
    """Return whether ``text`` is one spelled name, and nothing else."""
    run = _SPELLED.fullmatch(text)
    return run is not None and _has_enough_letters(run)


def _runs(document: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yield spelled names; the last letter of one may be the first of the next."""
    while run := _SPELLED.search(document, start, end):
        start = run.start("last")
        if _has_enough_letters(run):
            yield run


def _has_enough_letters(run: re.Match[str]) -> bool:
    fewest = _FEWEST_WITH_COMMAS if run["joiner"][0] == "," else _FEWEST
    return sum(map(str.isalpha, run[0])) >= fewest


def _find_spelled(document: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Return spans of spelled names, at most `_MOST` letters each, so that no word is too long."""
    done = start
    for run in _runs(document, start, end):
        for part in _SPELLED_PART.finditer(document, max(run.start(), done), run.end()):
            yield part.span()
        done = run.end()


def _with(
    document: str, spans: list[tuple[int, int]], names: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Merge ``spans`` with the parts of spelled ``names`` outside them; both are sorted and apart.

    A span within a name is replaced by the name.
    """
    found: list[tuple[int, int]] = []
    within, at = set(), 0
    bounds = [*spans, (len(document) + 1, len(document) + 1)]
    for first, end in names:
        start = first
        while bounds[at][1] <= start:
            at += 1
        place = at
        while start < end:
            while first <= bounds[place][0] and bounds[place][1] <= end:
                within.add(bounds[place])
                place += 1
            rest = document[start : min(end, bounds[place][0])]
            if _ALPHANUMERIC.search(rest):
                begin = start + len(rest) - len(rest.lstrip())
                found.append((begin, begin + len(rest.strip())))
            start, place = bounds[place][1], place + 1
    return sorted([*found, *(span for span in spans if span not in within)])


def _find_in_pieces(document: str, start: int, end: int) -> list[tuple[int, int]]:
    spans = []
    for piece in _PIECE.finditer(document, start, end):
        text = piece[0]
        if _MAY_BE.search(text):
            core = text.lstrip(_LEAD)
            first = piece.start() + len(text) - len(core)
            core = core.rstrip(_TAIL)
            for cell, at in _cells(document, core, first):
                if _is_identifier(cell):
                    spans.append((at, at + len(cell)))
    return spans


def _cells(document: str, core: str, first: int) -> Iterator[tuple[str, int]]:
    """Yield the numbers of a list without blanks, or ``core`` if it is none, and where they begin.

    "1,250.50", "3,5" and a place on a map are one number each; "3,9.99" and "54,140,90" are lists,
    and so is what has a neighbour without a blank: "17,250.00,Leeds".
    """
    cells = core.split(",")
    one = _ONE.fullmatch(core) and sum(map(str.isdigit, core)) >= _FEWEST_DIGITS
    if len(cells) > 1 and all(map(_CELL.fullmatch, cells)) and not one:
        glued = _GLUED.match(document, first + len(core)) or (
            first > 1 and document[first - 1] == "," and not document[first - 2].isspace()
        )
        numbers = all(map(_AMOUNT.fullmatch, cells))
        if glued or (len(cells) > 2 - numbers and not _NUMBER.fullmatch(core)):
            for cell in cells:
                yield cell, first
                first += len(cell) + 1
            return
    yield core, first


def _is_identifier(core: str) -> bool:
    if has_number(core):
        return True
    if not _ALPHANUMERIC.search(core):
        return False
    if "@" in core or "_" in core or "\\" in core or _PATH.match(core) or _is_key(core):
        return True
    # "end.Next" is two sentences that lack a space; "example.org" and "report.pdf" are names, and
    # "end.a" is treated as "end.the": the word after the stop must not decide about the one before.
    return any(label[1].islower() or core.isupper() for label in _DOTTED.finditer(core))


def _is_key(core: str) -> bool:
    if _ASSIGNED.search(core):
        return True
    if _CODE_IN_GROUPS.fullmatch(core):
        return len(set(map(len, core.split("-")))) == 1
    return (
        len(core) >= _SHORTEST_KEY
        and ("/" in core or "+" in core)
        and bool(_MIXED_CASE.search(core))
    )


def has_number(text: str) -> bool:
    """Return whether any character is a number in any script (Unicode categories Nd, Nl, No)."""
    if text.isascii():
        return not text.isalpha() and any("0" <= character <= "9" for character in text)
    return any(unicodedata.category(character)[0] == "N" for character in text)


class Kind(enum.Enum):
    """The kind of a word, by its form and never by its meaning."""

    WORD = "word"
    """Letters, symbols, emoji, control characters: all text of no other kind."""
    IDENTIFIER = "identifier"
    """A number, address, link, path, code or spelled name; see `find_identifiers`."""
    PUNCTUATION = "punctuation"
    """One character of a Unicode category P*, alone or repeated. The only kind with no content."""


_WORD, _IDENTIFIER, _PUNCTUATION = Kind  # read four times faster than of an enum


class Word(NamedTuple):
    """A word and its place, in code points: `document[start:end] == text`, but see `decoded`."""

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


_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
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
    surrogates included. Time grows linearly with the text. Letters in circles, references and marks
    within a word are read as plain letters, see `plain_letters`.

    >>> [word.text for word in split("She'll pay £1,200.50 to well-known Bo.", ["'ll"])]
    ['She', "'ll", 'pay', '£1,200.50', 'to', 'well', '-', 'known', 'Bo', '.']
    """
    return list(iter_words(document, clitics))


def iter_words(document: str, clitics: Sequence[str] = ()) -> Iterator[Word]:
    """Return the same words one by one, for documents with too many words for the memory."""
    read = decoded(document)
    words = _iter_words(read, clitics)
    if read == document:
        return words
    return (word._replace(text=without_fillers(word.text)) for word in words)


def _iter_words(document: str, clitics: Sequence[str]) -> Iterator[Word]:
    stretches = spelled_names(document)
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
    for first, last in find_identifiers(document, start, end):
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
        """Return for each of the next words the form of the word before it.

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
