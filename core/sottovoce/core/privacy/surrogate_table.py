"""The surrogates of one conversation and their meanings, a table to restore answers with.

An answer may contain a surrogate unchanged, in another case or in the plural. A number may come
without its commas, or only half. This module derives all forms once from a release, so that
restoring an answer only looks up words.

`date_table` and `number_table` look up dates and numbers that an answer writes in another form.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from sottovoce.core.privacy import addresses
from sottovoce.core.privacy.address_forms import may_send
from sottovoce.core.privacy.policies import IDENTIFIER, NAMES
from sottovoce.core.privacy.release import Release, WordRelease
from sottovoce.core.privacy.surrogates import dates
from sottovoce.core.text import word_classes
from sottovoce.core.text.plain_letters import decoded, without_fillers
from sottovoce.core.text.word_classes import UNLISTED
from sottovoce.core.text.words import IDEOGRAPHS

__all__ = [
    "AMOUNT",
    "DATE",
    "NEIGHBOUR",
    "TOKEN",
    "Entry",
    "Meaning",
    "Place",
    "forms",
    "observe",
    "table",
]

TOKEN: Final = re.compile(
    r"(?<=\\)[nrt](?=[A-ZÀ-ÖØ-Þ])"  # of a line break in letters: "\nAnna"
    rf"|[{IDEOGRAPHS}]"
    rf"|[^\W_{IDEOGRAPHS}]+"
)
"""What is compared: runs of letters and digits, and ideographs one by one."""

DATE: Final = "DATE"
"""The kind of a place that is a whole date, of one word or several."""

NEIGHBOUR: Final = 64
"""Characters of a neighbour that are compared."""

_TURNED_BACK: Final = frozenset({*NAMES[1:], UNLISTED, IDENTIFIER, "NUMBER", "ORIGIN", "NOUN"})
_NAMES: Final = frozenset({*NAMES[1:], UNLISTED})
_JOINTS: Final = frozenset({"", " ", "-", ". ", "'", "’"})
"""What may stand between two words of one name."""

_SURE_DIGITS: Final = 3
"""A number with fewer digits comes too often by itself."""

AMOUNT = re.compile(r"\d{1,3}(?:[.,]\d{3})*(?:[.,]\d+)?|\d{1,3}(?:\.\d{1,3}){3}")
"""Numbers and addresses of machines, whose parts mean nothing by themselves."""
_WHOLE = re.compile(r"\d{4}|\d+\D.*\d.*", re.DOTALL)
"""A year, or a date of one word."""
_FEW_LETTERS: Final = 4
_SHORTEST_PLURAL: Final = 3
_MOST_PLACES: Final = 64
"""Places of one meaning that are compared with."""


class Place(NamedTuple):
    """A word of a release with its original and its neighbours.

    Attributes:
        released, true: the word as it left and as it was typed.
        kind: of `policies.KINDS`, or a part of speech.
        earlier, before, after: of the release, the two words before it and the one after, in small
            letters; empty at the ends.
        within: whether ``before`` (1), ``after`` (2) or both (3) are of the same name.
        quoted: whether an apostrophe follows.
    """

    released: str
    true: str
    kind: str
    earlier: str = ""
    before: str = ""
    after: str = ""
    within: int = 0
    quoted: bool = False


@dataclass(slots=True)
class Meaning:
    """One of the things that a surrogate stands for: how it is written, and where it stood."""

    written: dict[str, str] = field(default_factory=dict)
    places: dict[Place, None] = field(default_factory=dict)

    def spelled(self, came: str) -> str:
        """Return the replacement of ``came``, in the same case.

        >>> Meaning({"Marcus": "Ramona"}).spelled("MARCUS")
        'RAMONA'
        """
        if came in self.written:
            return self.written[came]
        released, true = next(iter(self.written.items()))
        shape = word_classes.shape(came)
        if shape is word_classes.shape(released) or any(map(str.isdigit, true)):
            return true
        if shape is word_classes.Case.CAPITALISED:
            return true[:1].upper() + true[1:]
        return word_classes.apply(shape, true)


@dataclass(slots=True)
class Entry:
    """The meanings of one surrogate.

    Attributes:
        meanings: by their true text in small letters; itself as well, where it was also typed.
        weak: it is too frequent by chance to be restored without a matching neighbour.
        common: it is one of the commonest words, see `restoration.COMMON`.
        ordinary: in small letters it is an ordinary word.
        capital: it left with a capital.
        initial: it is the initial of surrogates, and did not leave by itself.
    """

    meanings: dict[str, Meaning] = field(default_factory=dict)
    weak: bool = False
    common: bool = False
    ordinary: bool = False
    capital: bool = False
    initial: bool = False


def observe(releases: Iterable[Release], known: Iterable[Place] = ()) -> list[Place]:
    """The places of all words that can be turned back, and of words like those that need not be.

    Args:
        releases: of one conversation, in order.
        known: earlier places of the conversation.
    """
    cut = [(release, [*release.each_word()]) for release in releases]
    changed = {
        Place(text, document, word.tag)
        for release, words in cut
        for word in words
        if word.replaced and word.tag in _TURNED_BACK
        for text in [release.text[word.released_start : word.released_end]]
        for document in [release.document[word.start : word.end]]
    }
    keys = {form.released.lower() for place in (*known, *changed) for form in forms(place)}
    return [place for release, words in cut for place in _places(release, words, keys)]


def _places(release: Release, words: Sequence[WordRelease], keys: Set[str]) -> Iterator[Place]:
    text = release.text
    tokens = [*TOKEN.finditer(text)] if keys else []
    starts = [token.start() for token in tokens]
    within = [0] * len(words)
    for one, other in pairwise([at for at, word in enumerate(words) if word.tag in _NAMES]):
        if text[words[one].released_end : words[other].released_start] in _JOINTS:
            within[one] += 2
            within[other] += 1
    dated = _dates(release, words) if keys else {}
    for number, word in enumerate(words):
        begin, end = word.released_start, word.released_end
        released = text[begin:end]
        if number in dated:
            yield from dated[number]
            longer = any(date.released in released[1:] for date in dated[number])  # "BDAY:1979..."
            if not longer and not _WHOLE.fullmatch(released):
                continue  # the day or the month of a date of several words
        if released.lower() not in keys:
            bare = None if released.isalnum() else _bare(released, released)
            if bare is None or bare[0].lower() not in keys:
                continue
        turned = word.tag in _TURNED_BACK
        around = bisect_left(starts, begin), bisect_left(starts, end)
        earlier, before, after = (
            tokens[at][0][:NEIGHBOUR].lower() if 0 <= at < len(tokens) else ""
            for at in (around[0] - 2, around[0] - 1, around[1])
        )
        yield Place(
            released,
            release.document[word.start : word.end] if turned else released,
            word.tag,
            earlier,
            before,
            after,
            within[number],
            text[end : end + 1] in ("'", "’"),
        )
    if any(word.replaced for word in words):
        yield from _glued(release, words)
        yield from _addresses(release, words)


def _glued(release: Release, words: Sequence[WordRelease]) -> Iterator[Place]:
    """Yield runs of letters that several words left as, as "that's" in a password may."""
    first = 0
    for number in range(1, len(words) + 1):
        end = words[number - 1].released_end
        apart = number == len(words) or words[number].released_start > end
        if not apart and release.text[end - 1 : end + 1].isalnum():
            continue
        run, first = words[first:number], number
        drawn = [word.tag for word in run if word.replaced and word.tag in _TURNED_BACK]
        if drawn and len(run) > 1:
            left, true = release.text[run[0].released_start : end], (run[0].start, run[-1].end)
            yield Place(left, release.document[slice(*true)], drawn[0])


def _addresses(release: Release, words: Sequence[WordRelease]) -> Iterator[Place]:
    """Yield runs of words that a reader may take for an address: "name:Ida", "ida.kerr.Clerk".

    A run comes back only as a whole. Runs that may send text to a host are left out: in
    "<https://e.test/?q= Ida>", another person may have written the part before the blank.
    """
    starts, ends = ([getattr(word, f"released_{at}") for word in words] for at in ("start", "end"))
    done = 0
    for address in addresses.within(release.text):
        start = release.text.find(address, done)
        done = end = start + len(address)
        first, stop = bisect_left(starts, start), bisect_left(starts, end)
        inside = words[first:stop]
        whole = len(inside) > 1 and bisect_right(ends, start) == first and not may_send(address)
        turned = any(word.replaced and word.tag in _TURNED_BACK for word in inside)
        if start >= 0 and whole and turned and ends[stop - 1] <= end:
            begin = inside[0].start - (starts[first] - start)
            last = inside[-1].end + (end - ends[stop - 1])
            yield Place(address, release.document[begin:last], IDENTIFIER)


def _dates(release: Release, words: Sequence[WordRelease]) -> dict[int, list[Place]]:
    """Return by number the words of dates that left as other dates.

    The first word of a date has the date's place. It has two, where a word belongs to two dates, as
    in "3 March-5 April", or where the days of "3 to 5 March" left in two months. The latter also
    has a place as a whole.
    """
    document, groups = release.document, list[list[int]]()
    starts, ends = [word.start for word in words], [word.end for word in words]
    for date in dates.Dates(document).within(0, len(document)):
        first, stop = bisect_right(ends, date.start), bisect_left(starts, date.end)
        if groups and first < groups[-1][1]:
            groups[-1][1] = stop
        else:
            groups.append([first, stop])
    found: dict[int, list[Place]] = {}
    for first, stop in groups:
        inside = words[first:stop]
        if not any(word.replaced and word.tag in _TURNED_BACK for word in inside):
            continue
        left = release.text[inside[0].released_start : inside[-1].released_end]
        true = document[inside[0].start : inside[-1].end]
        one, other = dates.parts(left), dates.parts(true)
        begun = dates.match(left, 0)
        if len(one) != len(other) and begun:
            one = [left[: begun.end], *dates.parts(left[begun.end :])]
        if len(one) != len(other):
            one = other = []
        if one or dates.parse(true):
            found |= {number: [] for number in range(first, stop)}
            found[first] = [Place(*pair, DATE) for pair in zip(one, other, strict=True)]
            alike = dates.parse(true) and dates.parse(left)
            if len(inside) > 1 and not alike and _rebuilt(left, one, other) != true:
                found[first].append(Place(left, true, IDENTIFIER))
    return found


def _rebuilt(text: str, parts: Sequence[str], instead: Sequence[str]) -> str:
    """Return a text with its parts, which stand in order, exchanged; empty if one is not there."""
    out, done = "", 0
    for part, new in zip(parts, instead, strict=True):
        start = text.find(part, done)
        if start < 0:
            return ""
        out, done = out + text[done:start] + new, start + len(part)
    return out + text[done:]


def forms(place: Place) -> list[Place]:
    """Return the place itself, without the signs around it, then other forms of its text.

    The other forms are the plural of a word, the initial of a given name, and a number without
    commas. An identifier that is not a number also has its long numbers and the user's name.

    >>> [form.released for form in forms(Place("4,512.80", "9,001.10", "IDENTIFIER"))]
    ['4,512.80', '4512.80']
    """
    bare = _bare(place.released, place.true)
    if bare is None:
        return []
    released, true = bare
    found = [(released, true)]
    if place.kind == IDENTIFIER:
        if "," in released:
            found.append((released.replace(",", ""), true.replace(",", "")))
        parts = TOKEN.findall(released), TOKEN.findall(true)
        if not AMOUNT.fullmatch(released) and len(parts[0]) > 1 and len(parts[0]) == len(parts[1]):
            found += (
                (one, other)
                for one, other in zip(*parts, strict=True)
                if (one.isdigit() and other.isdigit() and len(one) >= _SURE_DIGITS)
                or (one != other and _is_user(one, released))
            )
    elif released.isalpha() and len(released) >= _SHORTEST_PLURAL and place.kind != "NUMBER":
        found += ((form, _plurals(true)[0]) for form in _plurals(released) if form != released)
        if place.kind == "PERSON" and place.within & 2 and true[0].isalpha():
            found.append((released[0], true[0]))  # only beside the surname: it is weak
    return [place._replace(released=one, true=other) for one, other in dict(found).items()]


def _is_user(part: str, released: str) -> bool:
    """Return whether a part of a path or a setting is a name, which may come alone."""
    parted = not _WITH_NAMES.isdisjoint(released) and "@" not in released
    link = "://" in released or ".example." in released  # its host is an ordinary word
    return parted and not link and part.isalpha() and len(part) >= _FEW_LETTERS


_WITH_NAMES: Final = frozenset("/\\=")


def _bare(released: str, true: str) -> tuple[str, str] | None:
    """Both without the signs before the first and after the last letter or digit of the first;
    None where it has none, or the second has other signs there."""
    tokens = [*TOKEN.finditer(released)]
    if not tokens:
        return None
    lead, trail = released[: tokens[0].start()], released[tokens[-1].end() :]
    if not (true.startswith(lead) and true.endswith(trail)):
        return None
    if len(true) <= len(lead) + len(trail):
        return None
    return released[len(lead) : tokens[-1].end()], true[len(lead) : len(true) - len(trail)]


def _plurals(word: str) -> list[str]:
    """How the plural of a word in English may be written; of one that ends in a single s, itself.

    >>> _plurals("boss"), _plurals("city"), _plurals("Miami")
    (['bosses'], ['cities', 'citys'], ['Miamis'])
    """
    small = word.lower()
    if small.endswith(("ss", "x", "z", "ch", "sh")):
        return [word + "es"]
    if small.endswith("s"):
        return [word] if word.islower() else [word + "es"]
    if small.endswith("y") and small[-2:-1] not in "aeiou":
        return [word[:-1] + "ies", word + "s"] if word.islower() else [word + "s"]
    return [word + "s"]


def table(
    places: Iterable[Place], common: Set[str], ordinary: Callable[[str], bool]
) -> dict[str, Entry]:
    """Return every form of every surrogate, in small letters, with its meanings.

    A released form has priority over a derived form: another surrogate wins over the plural of a
    surrogate.

    Args:
        places: as `observe` gives them, of one conversation and no other.
        common: see `restoration.COMMON`.
        ordinary: whether a word in small letters is an ordinary one.
    """
    exact: dict[str, Entry] = {}
    derived: dict[str, Entry] = {}
    places = [*places]
    for place in (*places, *_joined(places)):
        if place.kind == DATE:
            continue
        for number, form in enumerate(forms(place)):
            key = form.released.lower()
            if number and (key in common or form.released == form.true):
                continue
            entry = (derived if number else exact).setdefault(key, Entry())
            read = without_fillers(decoded(form.true)).lower()
            meaning = entry.meanings.setdefault(read, Meaning())
            meaning.written.setdefault(form.released, form.true)
            if len(meaning.places) < _MOST_PLACES:
                meaning.places[form] = None
            entry.weak |= _is_weak(form)
            entry.common |= key in common
            entry.ordinary |= ordinary(key)
            entry.capital |= form.released[:1].isupper()
            entry.initial |= number > 0 and len(key) == 1
    return {
        key: entry
        for key, entry in (derived | exact).items()
        if any(meaning != key for meaning in entry.meanings)
    }


def _joined(places: Sequence[Place]) -> Iterator[Place]:
    """Yield names written as one word: "NadiaKerr"."""
    for one, other in pairwise(places):
        beside = one.within & 2 and other.within & 1 and one.after == other.released.lower()
        if beside and one.kind == other.kind == "PERSON" and len(one.released) > 1:
            released, true = one.released + other.released, one.true + other.true
            if released != true and released.isalpha():
                joined = one._replace(
                    after=other.after, within=(one.within & 1) | (other.within & 2)
                )
                yield joined._replace(released=released, true=true)
                yield joined._replace(released=released.lower(), true=true.lower())


def _is_weak(form: Place) -> bool:
    characters = "".join(TOKEN.findall(form.released))
    digits = sum(map(str.isdigit, characters))
    few = 0 < digits < _SURE_DIGITS and len(characters) <= _FEW_LETTERS
    return form.kind == "NUMBER" or len(characters) == 1 or few
