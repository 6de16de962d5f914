"""Restores the originals of surrogates, word by word while an answer arrives.

RAPT v2 restores entities on the device, but gives no algorithm. Only names, nouns and numbers are
restored, because verbs and adjectives are too frequent by chance. A `Restoration` knows exactly one
conversation. A surrogate may have two meanings, or an answer may contain the word by chance. Then
the words beside it must match the release. Otherwise it stays and is reported.

Inside an address, only an address that was released as a whole is restored, see
`addresses`. Clients load addresses, so a name in one would leave the device.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.address_forms import Known, find
from sottovoce.core.privacy.addresses import Addresses
from sottovoce.core.privacy.date_table import AHEAD, DateTable, Found
from sottovoce.core.privacy.number_table import NumberTable
from sottovoce.core.privacy.policies import IDENTIFIER
from sottovoce.core.privacy.surrogate_table import (
    NEIGHBOUR,
    TOKEN,
    Entry,
    Meaning,
    Place,
    forms,
    table,
)
from sottovoce.core.privacy.surrogates import dates
from sottovoce.core.text.vocabulary import Mark, Vocabulary
from sottovoce.core.text.word_classes import READINGS
from sottovoce.core.text.words import UNSPACED

COMMON: Final = 200
"""This number of a language's commonest words are restored only within a name. Number words among
them are also restored between the same neighbours."""

_GAP: Final = 16
"""Maximum number of characters between a word and its neighbour."""
_LAST: Final = 9
"""Number of characters of the output that are remembered."""
_MOST_REPORTED: Final = 1_000
_IGNORED: Final = "".join(map(chr, range(0x21)))
"""Characters that are dropped before an address (WHATWG URL, 4.4)."""

# A number after a character of a script without spaces is an identifier by itself.
_JOINED_BEFORE = re.compile(rf"\d[.,:/-]\Z|[^\W_{UNSPACED}]-\Z|_\Z")
_JOINED_AFTER = re.compile(r"[.,:/-]\d|_\w")
_JOINTS: Final = frozenset(".,:/-_")
_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,9})?|\d{1,18}(?:[.,]\d{1,9})?)(?!\w)")
_DIGITS = re.compile(r"[\d.,]+")
_LONGEST_NUMBER: Final = 40
_PARTED = re.compile(r"[^\w\s]|\s\W|\s\w+\W")
"""After a group of digits: signs, or all of the next word."""
_YEAR = re.compile(r"(?:19|20)\d\d")
_FEWEST_DIGITS: Final = 3
"""A number with fewer digits is not reported as computed."""
_NAME: Final = READINGS.index("NAME")
_APOSTROPHES: Final = frozenset("'’")
_QUOTES: Final = frozenset("'‘’")
_LETTERS = re.compile(TOKEN.pattern.rpartition("|")[2])
_OPENING = re.compile(r"(?:\A|[.!?:;\n#*•>|\-])[\s\"'“”‘’(\[*_]*\Z")
"""Before a word that has its capital from where it stands."""


_Reported = TypeVar("_Reported", str, tuple[str, str])


def _nobody(word: str) -> bool:
    return False


def ordinary_words(bundle: Bundle) -> Callable[[str], bool]:
    """Return a function that decides whether a word in small letters is an ordinary word.

    For English, it uses the public vocabulary, since no name in it is drawn. For other languages,
    it uses the bundle's readings.
    """
    if bundle.manifest.language == "en":
        marks = Vocabulary.shipped().marks
        return lambda word: bool(marks(word) & ~Mark.NAME)

    def ordinary(word: str) -> bool:
        listed = bundle.word_ids.get(word)
        return listed is not None and bool(bundle.readings[listed] != _NAME)

    return ordinary


def known_addresses(places: Iterable[Place]) -> Known:
    """Return the addresses among places."""
    meant: dict[str, set[str]] = {}
    hidden: set[str] = set()
    for place in places:
        if place.kind != IDENTIFIER or place.released == place.true:
            continue
        if find(place.released, "") is not None:
            meant.setdefault(place.released.lower(), set()).add(place.true)
        elif find(place.true, "") is not None:
            hidden.update(form.released.lower() for form in forms(place)[:1])
    return Known({came: true.pop() for came, true in meant.items() if len(true) == 1}, hidden)


@dataclass(frozen=True, slots=True)
class Restored:
    """An answer with its surrogates restored.

    Attributes:
        text: the answer.
        restored: each surrogate and its original, and how often it came.
        doubtful: possible surrogates that stayed, and how often they came.
        addresses: how many addresses hold a surrogate and stayed as they came.
    """

    text: str
    restored: Counter[tuple[str, str]]
    doubtful: Counter[str]
    addresses: int = 0


class Restoration:
    """The map of one conversation, from the released text to the typed one.

    Args:
        places: as `meanings.observe` gives them, of one conversation and no other.
        common: the `COMMON` commonest words of the language, in small letters.
        ordinary: whether a word in small letters is an ordinary one, so that "Park" where a
            sentence begins need not be somebody.
        said: the texts of the request. If numbers in it were drawn, other numbers in the answer may
            be computed from them, and are reported as doubtful. None for no such report.
    """

    def __init__(
        self,
        places: Iterable[Place],
        common: Set[str] = frozenset(),
        ordinary: Callable[[str], bool] = _nobody,
        said: Iterable[str] | None = None,
    ) -> None:
        places = [*places]
        self._numbers = _Numbers.of(places, said) if said is not None else None
        self._common = common
        self._known = known_addresses(places)
        self._dates = DateTable(places)
        self._grouped = NumberTable(places)
        self._words: dict[str, Entry] = {}
        self._runs: dict[str, list[tuple[str, Entry]]] = {}
        entries = table(places, common, ordinary)
        for key in sorted(entries, key=lambda key: (-len(key), key)):
            first = TOKEN.match(key)
            if first is not None and first.end() == len(key):
                self._words[key] = entries[key]
            elif first is not None:
                self._runs.setdefault(first[0], []).append((key, entries[key]))
        self._longest = max([NEIGHBOUR, *map(len, (*self._words, *self._runs))])

    def stream(self, before: str = "") -> Stream:
        """Return a stream that restores an answer piece by piece.

        Args:
            before: the text that the answer goes on with. An address may begin in it.
        """
        return self._stream(Addresses(self._known, before))

    def restore(self, text: str) -> Restored:
        """Turns back a whole answer; the same as in pieces."""
        return _all(self.stream(), text)

    def value(self, text: str, *, trusted: bool = False) -> Restored:
        """Turns back an argument of a function.

        Args:
            text: the argument. One that begins with an address is an address in all its length.
            trusted: whether surrogates are turned back in addresses too.
        """
        if trusted:
            return _all(self._stream(None), text)
        blank = len(text) - len(text.lstrip(_IGNORED))
        turned = _all(self._stream(Addresses(self._known, whole=True)), text[blank:])
        return replace(turned, text=text[:blank] + turned.text)

    def _stream(self, addresses: Addresses | None) -> Stream:
        return Stream(
            self._words,
            self._runs,
            self._longest,
            self._common,
            addresses,
            self._dates,
            self._grouped,
            self._numbers,
        )


def _all(stream: Stream, text: str) -> Restored:
    turned = stream.feed(text) + stream.finish()
    return Restored(turned, stream.restored, stream.doubtful, stream.addresses)


class _Numbers(NamedTuple):
    """The numbers of a request of which some were drawn."""

    said: Set[str]
    """All numbers as they left, without commas."""
    fewest: int
    """Digits from which on a number may be computed."""

    @classmethod
    def of(cls, places: Iterable[Place], said: Iterable[str]) -> _Numbers | None:
        """Return the numbers; None if none was drawn."""
        drawn = [
            sum(map(str.isdigit, place.released))
            for place in places
            if place.released != place.true and _NUMBER.fullmatch(place.released.strip("$€£¥%"))
        ]
        if not drawn:
            return None
        numbers = {found.replace(",", "") for text in said for found in _NUMBER.findall(text)}
        return cls(numbers, max(min(drawn) - 1, _FEWEST_DIGITS))

    def may_be_computed(self, number: str) -> bool:
        """Return whether the request did not hold a number, and it is long enough and no year."""
        plain = number.replace(",", "")
        digits = sum(map(str.isdigit, plain))
        return digits >= self.fewest and plain not in self.said and not _YEAR.fullmatch(number)


class _Around(NamedTuple):
    """The text around a word of an answer."""

    last: str
    """The characters before it."""
    earlier: str
    before: str


class _Span(NamedTuple):
    """An address in the held-back text: its ends, its number, and its replacement."""

    start: int
    end: int
    number: int
    instead: str | None

    def after(self, stop: int) -> _Span:
        """Return the rest of the address once the text to ``stop`` was output."""
        instead = "" if self.start < stop and self.instead else self.instead
        return _Span(max(self.start - stop, 0), self.end - stop, self.number, instead)


class Stream:
    """Restores an answer in pieces, with the same result for any cut.

    The stream holds back the word that is coming in. It also holds back the word before, if the
    next word decides its meaning. These are at most two words; a number or an address that is
    written with signs counts as one. In characters, they are at most the longest surrogate, or 64
    if that is shorter, and 80 more, in addition to the text that `Addresses` holds back.

    Args:
        words, runs, common: see `Restoration`.
        longest: characters of a word that may be a surrogate.
        addresses: finds the addresses; None where surrogates are turned back in them too.
        dated: knows the dates.
        grouped: knows the numbers in other groups.
        numbers: tells numbers that may be computed; None where none is.
    """

    def __init__(
        self,
        words: dict[str, Entry],
        runs: dict[str, list[tuple[str, Entry]]],
        longest: int,
        common: Set[str],
        addresses: Addresses | None,
        dated: DateTable,
        grouped: NumberTable,
        numbers: _Numbers | None,
    ) -> None:
        self.restored: Counter[tuple[str, str]] = Counter()
        self.doubtful: Counter[str] = Counter()
        self.addresses = 0
        """How many addresses hold a surrogate and stayed as they came."""
        self._words, self._runs, self._longest, self._common = words, runs, longest, common
        self._addresses = addresses
        self._dates, self._grouped, self._numbers = dated, grouped, numbers
        self._counted = 0
        self._held = ""
        self._spans: list[_Span] = []
        self._within = False
        """Whether what comes next may go on with a word too long to be a surrogate."""
        self._around = _Around("", "", "")

    @property
    def held(self) -> str:
        """The text that has arrived and was not output."""
        return self._held + (self._addresses.held if self._addresses else "")

    def feed(self, delta: str) -> str:
        """Return the text that can be output now that ``delta`` has arrived."""
        return self._cut(delta, final=False)

    def finish(self) -> str:
        """The rest."""
        return self._cut("", final=True)

    def _cut(self, delta: str, *, final: bool) -> str:
        if self._addresses is None:
            return self._scan(delta, final=final)
        parts = self._addresses.feed(delta, final=final)
        start = len(self._held)
        for came, number, instead in parts:
            end = start + len(came)
            if number:
                last = self._spans[-1] if self._spans else None
                if last and last[1:] == (start, number, instead) == (start, number, None):
                    start = self._spans.pop().start
                self._spans.append(_Span(start, end, number, instead))
            if instead is not None and came != instead:
                _count(self.restored, (came, instead))
            start = end
        return self._scan("".join(part.came for part in parts), final=final)

    def _scan(self, delta: str, *, final: bool) -> str:
        text = self._held + delta
        edits: list[_Span] = []
        spans, at = self._spans, 0
        place = 0
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
            while at < len(spans) and spans[at].end <= start:
                at += 1
            word = token[0].lower()
            begins = bool(self._dates) and dates.begins(word)
            begins |= self._numbers is not None and word[0].isdecimal()
            begins |= self._grouped.begins(word)
            if begins or word in self._words or word in self._runs:
                address = spans[at] if at < len(spans) else None
                near = (last + text[max(start - _LAST, 0) : start])[-_LAST:]
                around = _Around(near, earlier, before)
                turned = self._turned(text, start, end, address, around, final)
                if turned is None:
                    stop = start
                    break
                end, instead = turned
                if instead is not None:
                    edits.append(_Span(start, end, 0, instead))
                for inner in TOKEN.finditer(text, start, end):
                    earlier, before = before, inner[0][:NEIGHBOUR].lower()
            else:
                earlier, before = before, word[:NEIGHBOUR]
            place = end
        if not final and text[max(stop - 1, 0) : stop] == "\\":
            stop -= 1  # may begin a line break in letters
        edits += [span for span in spans if span.instead is not None and span.start < stop]
        self._spans = [span.after(stop) for span in spans if span.end > stop]
        self._held = text[stop:]
        self._around = _Around((last + text[:stop])[-_LAST:], earlier, before)
        return _edited(text, sorted(edits, key=lambda edit: edit.start), stop)

    def _turned(
        self,
        text: str,
        start: int,
        end: int,
        address: _Span | None,
        around: _Around,
        final: bool,
    ) -> tuple[int, str | None] | None:
        """Where the surrogate that begins at ``start`` ends and what takes its place, None for
        nothing; None where more has to come to tell. ``address`` is the next one, or the one here.
        """
        inside = address is not None and address.start < end
        free = len(text) if address is None else address.end if inside else address.start
        word = text[start:end].lower()
        entry = self._words.get(word)
        for key, run in self._runs.get(word, ()):
            stop = start + len(key)
            found = text[start:stop].lower()
            if not final and stop >= len(text) and key.startswith(found):
                return None
            if found == key and stop <= free and not TOKEN.match(text, stop):
                end, entry = stop, run
                break
        if self._dates and not inside and dates.begins(word):
            if not final and dates.goes_on(text, start):
                return None
            joined = _JOINED_BEFORE.search(around.last)
            second = bool(joined) and around.last[-1] == "-" and dates.ends(around.before)
            if word.isalpha() and around.before.isalpha() and around.last[-1:] == "-":
                joined = None  # "mid-October 1970"
            date = None
            if second or not joined:
                date = self._dates.at(around.last, text, start, free, second=second)
            if second and date and date.instead is None:
                date = None  # rather a number with a hyphen
            one = not word.isalpha() and not word.isdecimal()  # "18JAN"
            if date and (date.end > end or (one and date.end == end) or date.compact):
                return self._dated(text, start, date)
        if not inside and self._grouped.begins(word) and not _JOINED_BEFORE.search(around.last):
            last = self._grouped.end(text, start, final=final)
            if last is None:
                return None
            came = text[start:last]
            if came and last <= free and came.lower() not in self._words:
                instead = self._grouped.rewritten(came)
                _count(self.restored, (came, instead))
                return last, instead
        if entry is not None and word in self._dates.years and not inside:
            if len(text) < end + AHEAD and not final:
                return None
            if self._dates.is_part(around, text, end, self._common):
                _count(self.doubtful, word)
                return end, None
        if entry is not None and word in self._grouped.groups and not inside:
            after = text[end : end + _LONGEST_NUMBER]
            if len(after) < _LONGEST_NUMBER and not _PARTED.search(after) and not final:
                return None
            if self._grouped.is_part(around.last, around.before, word, after):
                _count(self.doubtful, word)
                return end, None
        if entry is None:
            return (end, None) if inside else self._computed(text, start, end, around, final)
        if address is None or not inside:
            return self._decided(text, start, end, entry, around, final)
        telling = address.instead is None and not (entry.weak or entry.common)
        if telling and address.number != self._counted:
            self._counted = address.number
            self.addresses += 1
        return end, None

    def _computed(
        self, text: str, start: int, end: int, around: _Around, final: bool
    ) -> tuple[int, str | None] | None:
        """Report a number that may be computed from drawn numbers; see `_turned`."""
        number = _NUMBER.match(text, start) if self._numbers else None
        if number is None or self._numbers is None or _JOINED_BEFORE.search(around.last):
            return end, None
        run = _DIGITS.match(text, start)
        goes_on = run and run.end() == len(text) < start + _LONGEST_NUMBER
        if (goes_on or len(text) < number.end() + 2) and not final:
            return None
        if number.end() < end or _JOINED_AFTER.match(text, number.end()):
            return end, None
        if self._numbers.may_be_computed(number[0]):
            _count(self.doubtful, number[0])
        return number.end(), None

    def _dated(self, text: str, start: int, date: Found) -> tuple[int, str | None]:
        came, instead = text[start : date.end], date.instead
        if instead is None:
            if date.full:
                _count(self.doubtful, came)
        elif instead != came:
            _count(self.restored, (came, instead))
        return date.end, instead

    def _decided(
        self, text: str, start: int, stop: int, entry: Entry, around: _Around, final: bool
    ) -> tuple[int, str | None] | None:
        came, ahead = text[start:stop], text[stop : stop + 2]
        if entry.initial and came.islower():
            return stop, None  # "</b>" before a surname
        cut = len(ahead) == 1 and not final
        if came[0].isdigit() and _JOINED_BEFORE.search(around.last):
            return stop, None
        if came[-1].isdigit() and ahead[:1] in _JOINTS:
            if cut:
                return None
            if _JOINED_AFTER.match(ahead):
                return self._computed(text, start, stop, around, final)
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
            letter = entry.initial or (entry.common and len(came) == 1)  # "I" says little
            if not letter and not (entry.capital and came.islower()):
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
        """Return the meaning with the same neighbours in the release; None for none or several."""

        def alike(place: Place) -> tuple[int, bool]:
            left, right = place.before == around.before, place.after == after
            named = (left and place.within & 1) or (right and place.within & 2)
            if entry.common and not (
                named or (place.kind in ("NUMBER", IDENTIFIER) and left and right)
            ):
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
        """Return the weight of an equal neighbour; a common neighbour weighs less."""
        return 1 if not neighbour or neighbour in self._common else 2


def _neighbour(text: str, stop: int, final: bool) -> str | None:
    """Return the word after ``stop``; "" if none is near; None if more text is needed to decide."""
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
    """Return whether ``came`` has an apostrophe alone where ``instead`` needs "'s"."""
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


def _edited(text: str, edits: Iterable[_Span], stop: int) -> str:
    """The text to ``stop`` with the edits made, in order."""
    out: list[str] = []
    done = 0
    for start, end, _, instead in edits:
        out += (text[done:start], instead or "")
        done = end
    return "".join((*out, text[done:stop]))
