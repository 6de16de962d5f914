"""Turns surrogates back, word by word as an answer comes in.

Why it is here: RAPT v2 restores entities on the device and gives no algorithm. Only names, nouns
and numbers are turned back, as anything else comes too often by itself, and only by what one
conversation released: a `Restoration` knows no other. Where a surrogate stands for two things, or
is a word that an answer may well have of itself, the words beside it must be those of the release;
where they are not, it stays as it came, and is reported. Nothing that is made here leaves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from sottovoce.core.privacy.surrogate_table import NEIGHBOUR, TOKEN, Entry, Meaning, Place, table

__all__ = ["COMMON", "Restoration", "Restored", "Stream"]

COMMON: Final = 200
"""So many of a language's commonest words are turned back within a name alone, or, where they are
number words, between the same neighbours."""

_GAP: Final = 16
"""Characters that may lie between a word and what counts as its neighbour."""
_LAST: Final = 8
"""Characters that are remembered of what was given out."""
_MOST_REPORTED: Final = 1_000

_JOINED_BEFORE = re.compile(r"\d[.,:/-]\Z")
_JOINED_AFTER = re.compile(r"[.,:/-]\d")
_JOINTS: Final = frozenset(".,:/-")
_APOSTROPHES: Final = frozenset("'’")
_QUOTES: Final = frozenset("'‘’")
_LETTERS = re.compile(TOKEN.pattern.partition("|")[2])
_OPENING = re.compile(r"(?:\A|[.!?:;\n#*•>|\-])[\s\"'“”‘’(\[*_]*\Z")
"""Before a word that has its capital from where it stands."""


_Reported = TypeVar("_Reported", str, tuple[str, str])


def _nobody(word: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Restored:
    """An answer with its surrogates turned back.

    Attributes:
        text: the answer.
        restored: what came and what stands in its place, and how often.
        doubtful: what came and may be a surrogate, and stayed; how often.
    """

    text: str
    restored: Counter[tuple[str, str]]
    doubtful: Counter[str]


class Restoration:
    """The map of one conversation, from what was released to what was typed.

    Args:
        places: as `meanings.observe` gives them, of one conversation and no other.
        common: the `COMMON` commonest words of the language, in small letters.
        ordinary: whether a word in small letters is an ordinary one, so that "Park" where a
            sentence begins need not be somebody.
    """

    def __init__(
        self,
        places: Iterable[Place],
        common: Set[str] = frozenset(),
        ordinary: Callable[[str], bool] = _nobody,
    ) -> None:
        self._common = common
        self._words: dict[str, Entry] = {}
        self._runs: dict[str, list[tuple[str, Entry]]] = {}
        entries = table(places, common, ordinary)
        for key in sorted(entries, key=lambda key: (-len(key), key)):
            first = TOKEN.match(key)
            if first is not None and first.end() == len(key):
                self._words[key] = entries[key]
            elif first is not None:
                self._runs.setdefault(first[0], []).append((key, entries[key]))
        self._longest = max(map(len, (*self._words, *self._runs)), default=0)

    def stream(self) -> Stream:
        """Turns an answer back that comes in pieces."""
        return Stream(self._words, self._runs, max(self._longest, NEIGHBOUR), self._common)

    def restore(self, text: str) -> Restored:
        """Turns back a whole answer; the same as in pieces."""
        stream = self.stream()
        turned = stream.feed(text) + stream.finish()
        return Restored(turned, stream.restored, stream.doubtful)


class _Around(NamedTuple):
    """What stands around a word of an answer."""

    last: str
    """The characters before it."""
    earlier: str
    before: str


class Stream:
    """Turns back an answer in pieces: however it is cut, what comes out is the same.

    Held back is the word that is coming in, and one before it where the neighbour decides: two
    words, of which a number or an address that is written with signs counts as one. In characters
    it is the longest surrogate, or 64 if that is shorter, and 80 more.
    """

    def __init__(
        self,
        words: dict[str, Entry],
        runs: dict[str, list[tuple[str, Entry]]],
        longest: int,
        common: Set[str],
    ) -> None:
        self.restored: Counter[tuple[str, str]] = Counter()
        self.doubtful: Counter[str] = Counter()
        self._words, self._runs, self._longest, self._common = words, runs, longest, common
        self._held = ""
        self._within = False
        """Whether what comes next may go on with a word too long to be a surrogate."""
        self._around = _Around("", "", "")

    def feed(self, delta: str) -> str:
        """What can be given out now that ``delta`` has come."""
        return self._scan(delta, final=False)

    def finish(self) -> str:
        """The rest."""
        return self._scan("", final=True)

    def _scan(self, delta: str, *, final: bool) -> str:
        text = self._held + delta
        out: list[str] = []
        done = place = 0
        if self._within and text:
            rest = _LETTERS.match(text)
            place = rest.end() if rest else 0
            self._within = place == len(text)
        earlier, before = self._around.earlier, self._around.before
        last = self._around.last
        stop = len(text)
        while token := TOKEN.search(text, place):
            start, end = token.span()
            if end == len(text) and not final:
                if end - start <= self._longest:
                    stop = start
                    break
                self._within = True
            word = token[0].lower()
            if word in self._words or word in self._runs:
                near = (last + text[max(start - _LAST, 0) : start])[-_LAST:]
                around = _Around(near, earlier, before)
                turned = self._turned(text, start, end, word, around, final)
                if turned is None:
                    stop = start
                    break
                end, instead = turned
                if instead is not None:
                    out += (text[done:start], instead)
                    done = end
                for inner in TOKEN.finditer(text, start, end):
                    earlier, before = before, inner[0][:NEIGHBOUR].lower()
            else:
                earlier, before = before, word[:NEIGHBOUR]
            place = end
        out.append(text[done:stop])
        self._held = text[stop:]
        self._around = _Around((last + text[:stop])[-_LAST:], earlier, before)
        return "".join(out)

    def _turned(
        self, text: str, start: int, end: int, word: str, around: _Around, final: bool
    ) -> tuple[int, str | None] | None:
        """Where the surrogate that begins at ``start`` ends and what takes its place, None for
        nothing; None where more has to come to tell."""
        for key, entry in self._runs.get(word, ()):
            stop = start + len(key)
            found = text[start:stop].lower()
            if not final and stop >= len(text) and key.startswith(found):
                return None
            if found == key and not TOKEN.match(text, stop):
                return self._decided(text, start, stop, entry, around, final)
        if word not in self._words:
            return end, None
        return self._decided(text, start, end, self._words[word], around, final)

    def _decided(
        self, text: str, start: int, stop: int, entry: Entry, around: _Around, final: bool
    ) -> tuple[int, str | None] | None:
        came, ahead = text[start:stop], text[stop : stop + 2]
        cut = len(ahead) == 1 and not final
        if came[0].isdigit() and _JOINED_BEFORE.search(around.last):
            return stop, None
        if came[-1].isdigit() and ahead[:1] in _JOINTS:
            if cut:
                return None
            if _JOINED_AFTER.match(ahead):
                return stop, None
        if cut and came[-1] in "sS" and ahead in _APOSTROPHES:
            return None
        weak = entry.weak or (entry.ordinary and entry.capital and _by_chance(came, around.last))
        if weak or entry.common or len(entry.meanings) > 1:
            after = _neighbour(text, stop, final)
            if after is None:
                return None
            meaning = self._by_neighbours(entry, around, after, 2 if weak else 1)
        else:
            (meaning,) = entry.meanings.values()
        if meaning is None:
            if not (entry.capital and came.islower()):
                _count(self.doubtful, came)
            return stop, None
        instead = meaning.spelled(came)
        if _lacks_its_s(came, instead, ahead, around.last, meaning):
            came, instead, stop = came + ahead[0], f"{instead}{ahead[0]}s", stop + 1
        if came != instead:
            _count(self.restored, (came, instead))
        return stop, instead

    def _by_neighbours(
        self, entry: Entry, around: _Around, after: str, least: int
    ) -> Meaning | None:
        """What stood between such words in the release; None where nothing did, or two things."""

        def alike(place: Place) -> tuple[int, bool]:
            left, right = place.before == around.before, place.after == after
            named = (left and place.within & 1) or (right and place.within & 2)
            if entry.common and not (named or (place.kind == "NUMBER" and left and right)):
                return 0, False
            telling = left * self._weight(around.before) + right * self._weight(after)
            return telling, left and place.earlier == around.earlier

        ranked = sorted(
            ((max(map(alike, meaning.places)), meaning) for meaning in entry.meanings.values()),
            key=lambda found: found[0],
            reverse=True,
        )
        (best, meaning), *others = ranked
        if best[0] < least or (others and others[0][0] == best):
            return None
        return meaning

    def _weight(self, neighbour: str) -> int:
        """What it counts that a word has the same neighbour: a common one is found anywhere."""
        return 1 if not neighbour or neighbour in self._common else 2


def _neighbour(text: str, stop: int, final: bool) -> str | None:
    """The word after ``stop``, empty where none is near; None where more has to come to tell."""
    token = TOKEN.search(text, stop, stop + _GAP + NEIGHBOUR)
    if token is None or token.start() > stop + _GAP:
        return "" if final or len(text) > stop + _GAP else None
    if token.end() == len(text) and not final:
        return None
    return token[0][:NEIGHBOUR].lower()


def _by_chance(came: str, last: str) -> bool:
    """Whether a word that left with a capital has none, or has it from where it stands."""
    return came.islower() or bool(_OPENING.search(last))


def _lacks_its_s(came: str, instead: str, ahead: str, last: str, meaning: Meaning) -> bool:
    """Whether ``came`` shows by an apostrophe alone what ``instead`` shows by one and an s."""
    return (
        came[-1] in "sS"
        and instead[-1] not in "sS"
        and ahead[:1] in _APOSTROPHES
        and ahead[1:].isspace()
        and last[-1:] not in _QUOTES
        and not any(place.quoted for place in meaning.places)
    )


def _count(counter: Counter[_Reported], what: _Reported) -> None:
    if what in counter or len(counter) < _MOST_REPORTED:
        counter[what] += 1
