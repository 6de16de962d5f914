"""One surrogate for each part of a name, wherever a conversation names it.

`names` chooses a list from the looks around a word, so one name may get several surrogates. Here
the first choice counts for the rest of the conversation: in any case, in the plural, alone, after a
title, in a key of JSON, in a mail address. Policies that read the context use it. No surrogate is a
word of the public vocabulary, so an answer can be restored wherever the surrogate stands.

A draw depends on the kind of the name, its place in the name, and the grammatical gender that a
given name tells. It does not depend on the name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from sottovoce.core.privacy.cities import is_city
from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import case, names, one_of, word_groups, words_of
from sottovoce.core.text import word_classes

_KIND: Final = "name"
_INITIAL: Final = "initial"
_CITY: Final = "city"
_DATED: Final = "dated"
_VALUES: Final = "secrets", "numbers", "contacts"
"""Sorts of values that are hidden again, see `values`."""
_NO_SURROGATE: Final = "\0"
"""Begins the key of a value, which is no surrogate's; no text contains it."""
_NO_WORD: Final = "\0\0"
"""The key of the note that a full date was replaced; no text contains it."""
_NOBODYS: Final = frozenset({_CITY, _DATED, "UNLISTED", "word"})
"""Sorts of surrogates, and of cities that passed, that belong to nobody."""
_ATTEMPTS: Final = 16
_KINDS: Final = frozenset({"PERSON", "PLACE", "ORGANISATION", "NAME", "UNLISTED"})
_LASTING: Final = {"PLACE": "places", "ORGANISATION": "organisations"}
"""What hides the later mentions of a kind of name, besides those of persons."""
_UNSURE: Final = frozenset({"NAME", "UNLISTED", "PLACE"})
"""Kinds of words that are persons where they follow a person's given name."""

_HEADS: Final = (
    *("bel", "bro", "cor", "dra", "dun", "fen", "fro", "gal", "gre", "hel", "jor", "kel", "kra"),
    *("lum", "mor", "nol", "pel", "pro", "quo", "ras", "ruv", "sel", "sno", "tav", "tru", "ulb"),
    *("ver", "wen", "yor", "zel"),
)
_TAILS: Final = ("adan", "aket", "elun", "emir", "inod", "ipav", "orit", "otam", "ovek", "uzor")
COINED: Final = tuple(f"{head}{tail}" for head in _HEADS for tail in (*_TAILS, "ilor", "andro"))
"""Words of no language, for organisations and for words in no list."""

_RUN = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]?[a-zß-öø-ÿ]+|[A-Z]+(?![a-z])|[^\W\d_]+|\d+")
_LIST: Final = {"f": ("women",), "m": ("men",), "family": ("surnames",), "PLACE": ("places",)}


class Past(NamedTuple):
    """The names and numbers that a conversation drew before.

    Attributes:
        persons: the parts of persons' names, in small letters.
        others: the kind of each part of the name of a place or an organisation.
        cities: the public cities that passed.
        private: whether names or numbers were drawn.
        values: what each drawn value hides, see `values`.
        asked: what a question asked for that the text answers, see `questions`.
        dated: whether a date with day, month and year was drawn.
    """

    persons: Set[str] = frozenset()
    others: Mapping[str, str] = MappingProxyType({})
    cities: Set[str] = frozenset()
    private: bool = False
    values: Mapping[str, str] = MappingProxyType({})
    asked: str = ""
    dated: bool = False


class NameWord(NamedTuple):
    """A word that is to be drawn, as `surrogate.DrawnSurrogate` has it."""

    place: int
    kind: str
    text: str
    form: str
    gap: str
    """What stands between it and the drawn word before it; one of two characters at most."""
    titled: bool
    """Whether a title stands before it."""
    gender: str = ""
    """See `surrogate.DrawnSurrogate`."""


class KnownNames:
    """The names of one conversation and their surrogates.

    Args:
        stream: see `surrogate.Surrogates`.
        owners: of all surrogates of the conversation; new ones are added.
        document: no word in it becomes a surrogate.
    """

    def __init__(
        self,
        stream: Callable[..., Random],
        owners: dict[str, tuple[str, str]],
        document: str = "",
    ) -> None:
        self._stream, self._owners, self._document = stream, owners, document
        self._lower = ""
        self._drawn = {form: drawn for drawn, (sort, form) in owners.items() if sort in _KINDS}
        self._initials = {form: drawn for drawn, (sort, form) in owners.items() if sort == _INITIAL}

    @property
    def past(self) -> Past:
        """The conversation's drawn names, and the cities that passed."""
        forms: dict[str, set[str]] = defaultdict(set)
        for sort, form in self._owners.values():
            forms[sort].add(form)
        private = not forms.keys() <= _NOBODYS
        others = {form: hides for sort, hides in _LASTING.items() for form in forms[sort]}
        values = {form: kind for kind in _VALUES for form in forms[kind]}
        return Past(
            frozenset(forms["PERSON"]),
            others,
            frozenset(forms[_CITY]),
            private,
            values,
            dated=_DATED in forms,
        )

    def keep_values(self, values: Mapping[str, str]) -> None:
        """Note drawn values, and what each hides."""
        for value, kind in values.items():
            self._owners.setdefault(_NO_SURROGATE + value, (kind, value))

    def keep_dated(self) -> None:
        """Note that a full date was replaced."""
        self._owners.setdefault(_NO_WORD, (_DATED, ""))

    def keep_cities(self, cities: Iterable[str]) -> None:
        """Note public cities, in small letters, that passed; no surrogate is a noted city."""
        for city in cities:
            self._owners.setdefault(city, (_CITY, city))

    def replace(self, words: Sequence[NameWord]) -> dict[int, str]:
        """Return the surrogates of the names among the words, by place."""
        taken = [word for word in words if word.kind in _KINDS and _is_name(word)]
        runs = [*_runs(taken)]
        full = [run for run in runs if len(run) > 1]
        for run in sorted(runs, key=_rank):
            self._draw_all(run)
        for run in full:
            self._note_initials(run)
        found: dict[int, str] = {}
        for run in runs:
            for word in run:
                base = self._initial(word, run) if len(word.text) == 1 else self._base(word.form)
                found[word.place] = word_classes.apply(word_classes.Case(case(word.text)), base)
        return found

    def within(self, text: str, drawn: str) -> str:
        """Return the surrogate of an identifier, with known names in the place of known names.

        Only an identifier, or the local part of a mail address, that has no other letters is
        changed: "nadia_kerr", "n.kerr82@mail.example".

        Args:
            text: a code, a handle or a mail address.
            drawn: what was drawn for it.
        """
        local, at, _ = text.partition("@") if text[:1] != "@" else (text, "", "")
        parts = _PART.findall(local)
        letters = [part for part in parts if not part.isdigit()]
        last = letters[-1].lower() if letters else ""
        known = {part: self._part(part, last) for part in letters}
        if not any(len(part) > 1 for part in letters) or not all(known.values()):
            return drawn
        numbers = self._stream(_KIND, "digits", text, "0").random((len(local),)).tolist()
        digits = iter([str(int(10 * number)) for number in numbers])

        def other(match: re.Match[str]) -> str:
            part = match[0]
            if part.isdigit():
                return "".join(next(digits) for _ in part)
            return word_classes.apply(word_classes.Case(case(part)), known[part])

        return _PART.sub(other, local) + at + (drawn.partition("@")[2] if at else "")

    def _part(self, part: str, last: str) -> str:
        """Return the surrogate of an identifier's part; "" if it is not one or two known names.

        Args:
            last: the last part in small letters, which may be the surname to an initial.
        """
        form = part.lower()
        if found := self._letter_or_name(form, last):
            return found
        for cut in range(1, len(form) - 1):
            first = self._letter_or_name(form[:cut], form[cut:])
            second = self._letter_or_name(form[cut:], last)
            if first and second:
                return first + second
        return ""

    def _letter_or_name(self, form: str, last: str) -> str:
        if len(form) > 1:
            return self._base(form) if self._singular(form) else ""
        return self._initials.get(f"{form}. {last}", "")[:1]

    def _draw_all(self, run: Sequence[NameWord]) -> None:
        person = any(word.kind == "PERSON" for word in run)
        for number, word in enumerate(run):
            form = word.form.lower()
            if len(word.text) == 1 or self._singular(form):
                continue
            last = bool(number) and number == len(run) - 1
            sort = word.kind
            if person:
                sort = names.gender(form)
                alone = len(run) == 1 and (word.titled or (not sort and names.is_family(form)))
                sort = sort if sort in ("f", "m") else run[0].gender or sort
                sort = "family" if alone or last else sort
            initial = "" if last or not person else self._initials.get(_short(word, run), "")
            self._draw(form, "PERSON" if person else word.kind, sort, initial[:1])

    def _draw(self, form: str, kind: str, sort: str, initial: str) -> None:
        choices = _choices(sort)
        if initial:
            choices = tuple(name for name in choices if name[0] == initial) or choices
        drawn = ""
        for attempt in range(_ATTEMPTS):
            drawn = one_of(choices, self._stream(_KIND, _KIND, form, str(attempt)))
            if self._is_free(drawn):
                break
        self._owners.setdefault(drawn, (kind, form))
        self._drawn[form] = drawn

    def _is_free(self, drawn: str) -> bool:
        self._lower = self._lower or self._document.lower()
        return drawn not in self._owners and drawn not in self._drawn and drawn not in self._lower

    def _singular(self, form: str) -> str:
        """Return the known form that a form is, or the plural of; "" for none."""
        form = form.lower()
        if form in self._drawn:
            return form
        return form[:-1] if form.endswith("s") and form[:-1] in self._drawn else ""

    def _base(self, form: str) -> str:
        form = form.lower()
        known = self._singular(form)
        return self._drawn[known] + ("s" if known != form else "")

    def _note_initials(self, run: Sequence[NameWord]) -> None:
        for word in run[:-1] if len(run[-1].text) > 1 else ():
            if len(word.text) > 1 and word.kind == "PERSON":
                short = f"{self._base(word.form)[0]}. {self._base(run[-1].form)}"
                if self._initials.setdefault(_short(word, run), short) == short:
                    self._owners.setdefault(short, (_INITIAL, _short(word, run)))

    def _initial(self, word: NameWord, run: Sequence[NameWord]) -> str:
        """Return the letter for an initial; for a known name, the given name's letter."""
        short = _short(word, run)
        if short not in self._initials:
            first = one_of(_choices(""), self._stream(_KIND, _INITIAL, short, "0"))[0]
            last = run[-1].form
            drawn = f"{first}. {self._base(last) if self._singular(last) else last}"
            self._initials[short] = drawn
            self._owners.setdefault(drawn, (_INITIAL, short))
        return self._initials[short][0]


def forget_values(
    owners: dict[str, tuple[str, str]], drawn: Iterable[str], texts: Sequence[str]
) -> None:
    """Delete the values among newly noted surrogates that left as typed in earlier texts."""
    if values := [key for key in drawn if key.startswith(_NO_SURROGATE)]:
        left = {run.lower() for text in texts for run in _RUN.findall(text)}
        for key in values:
            if key.removeprefix(_NO_SURROGATE) in left:
                del owners[key]


def _is_name(word: NameWord) -> bool:
    if len(word.text) == 1:
        return word.kind == "PERSON" and word.text.isalpha()
    return word_groups.oddity(word.text) is None


def _runs(words: Sequence[NameWord]) -> Iterator[list[NameWord]]:
    """Yield the names, the last name last, also of "Kerr, Nadia".

    A name of a person goes on with any kind of word that may be one.
    """
    found: list[list[NameWord]] = []
    for word in words:
        if found and _goes_on(found[-1], word):
            found[-1].append(word)
        else:
            found.append([word])
    while found:
        run = found.pop(0)
        if found and _is_turned(run, found[0]):
            run = [*found.pop(0), *run]
        yield run


def _goes_on(run: Sequence[NameWord], word: NameWord) -> bool:
    initial = len(run[-1].text) == 1 and word.gap in (".", ". ")
    alike = word.kind == run[-1].kind or (run[0].kind == "PERSON" and word.kind in _UNSURE)
    beside = word.place - run[-1].place == 1 + len(word.gap.strip())  # a mark is a word
    return alike and beside and (initial or word.gap in (" ", "-"))


def _rank(run: Sequence[NameWord]) -> tuple[bool, bool, bool, bool]:
    """Return a sort key for names: persons' names are drawn first, so that no person is a place."""
    first = run[0]
    return first.kind != "PERSON", len(run) < 2, not first.titled, not first.gender


def _is_turned(last: Sequence[NameWord], first: Sequence[NameWord]) -> bool:
    """Return whether a last name and a comma stand before a given name."""
    persons = last[0].kind == first[0].kind == "PERSON" and len(last) == 1
    if not persons or first[0].gap != ", " or names.gender(last[0].form.lower()):
        return False
    return len(first[0].text) == 1 or bool(names.gender(first[0].form.lower()))


def _short(word: NameWord, run: Sequence[NameWord]) -> str:
    """Return how a name is written with an initial: "n. kerr"."""
    return f"{word.form[:1].lower()}. {run[-1].form.lower()}"


@cache
def _choices(sort: str) -> tuple[str, ...]:
    if sort in ("ORGANISATION", "NAME", "UNLISTED"):
        return COINED
    chosen = (name for file in _LIST.get(sort, ("women", "men")) for name in words_of(file))
    return tuple(name for name in chosen if sort != "PLACE" or not is_city(name))
