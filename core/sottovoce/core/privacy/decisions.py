"""Decides the treatment of each word of a text, before anything is drawn.

Only this module weighs a word, its possible name and a policy against one another. It passes on a
treatment and a class. Noise, search and surrogates see nothing else. In doubt, a word is protected.

Neighbours count by their looks alone, which the release shows anyway. Exchanging a neighbour for a
word with the same looks changes no decision. A mechanism that reads context gives this up, see
`Contextual`, and so does the policy `personal`. The owner's phrases and patterns may span several
words. They only ever turn noise or passing into a draw.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.hiding import LISTED, Spans
from sottovoce.core.privacy.mechanisms.spherical import Mechanism
from sottovoce.core.privacy.personal import REACH, REASONS, Personal, drawn_as
from sottovoce.core.privacy.policies import IDENTIFIER, KINDS, NAMES, PUNCTUATION, Policy, Treatment
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.names import Found
from sottovoce.core.text.tagger import Tagger
from sottovoce.core.text.word_classes import BY_TAG, FIRST_WORD, READINGS, UNLISTED, look_up, looks
from sottovoce.core.text.words import Kind, Word

MOST: Final = 2_048
"""Number of different words after which all are forgotten, before the next window."""

_FACTS: Final = np.dtype(
    [
        ("id", np.int32),
        ("kind", np.uint8),
        ("look", np.uint8),
        ("never", np.bool_),
        ("otherwise", np.bool_),
    ]
)
_CONNECTING: Final = frozenset({"and", "at", "for", "in", "of", "on", "the", "to"})
"""Words that occur within names, but are no names in small letters."""
_SIGN: Final = re.compile(r"([$+<=>^`|~])\1*|[<=>|~^+]=|=[>~]|<>|<=>|<<=|>>=|<\||\|>")
"""Signs that give a text its form: Markdown's fences and tables, operators of programs."""
_NONE: Final = "\0"
"""In place of the form of a mark or identifier; no text contains it."""
_PASS, _NOISE, _DRAW = map(int, Treatment)  # NumPy compares four times faster than with an enum
_PUNCTUATION, _IDENTIFIER = KINDS.index(PUNCTUATION), KINDS.index(IDENTIFIER)
_WORD, _MARK = Kind.WORD, Kind.PUNCTUATION  # read four times faster than of an enum


Alone = Callable[[Sequence[str], NDArray[np.int32]], NDArray[np.float32]]
"""Returns a name finder's features of words without context, a row for each word.

Takes the texts, and the ids: the id of a word that is listed but for its case, else -1."""


class KnownWords:
    """The different words of one document; two are the same if nothing but their place differs.

    Args:
        vectors: gives normal forms and ids.
        readings: of listed words, places in `READINGS`.
        alone: asks the finder of names, if there is one.

    Attributes, all by the numbers that `numbers` gives:
        forms: the normal form; for marks and identifiers, a form that no word has.
        facts: "id" of a listed word, else -1; "kind", a place in `KINDS` before names are
            found; whether it is "never" a name, whatever the finder says; whether it is listed
            "otherwise" than it was typed, see `_otherwise`; with a finder, "look", see
            `looks.looks`.
        alone: its features in the finder.
    """

    def __init__(self, vectors: Vectors, readings: NDArray[np.uint8], alone: Alone | None) -> None:
        self._vectors = vectors
        self._readings = readings
        self._ask = alone
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[str | tuple[str, bool], int] = {}
        self.forms: list[str] = []
        self.facts = np.empty(0, _FACTS)
        self.alone = np.empty((0, 0), np.float32)

    def numbers(self, words: Sequence[Word]) -> NDArray[np.intp]:
        """Return the number of each word, valid until the next call: Ints1d (n,)."""
        if len(self._numbers) > MOST:
            self._forget()
        numbers = self._numbers
        which: list[int] = []
        new: list[Word] = []
        for word in words:
            text, _, _, kind, clitic = word
            # A mark's text is no word's, nor an identifier's.
            key = text if kind is _WORD and not clitic else (text, clitic)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(numbers)
                new.append(word)
            which.append(number)
        if new:
            self._learn(new)
        return np.array(which, np.intp)

    def _learn(self, words: Sequence[Word]) -> None:
        texts = [text if kind is _WORD else "" for text, _, _, kind, _ in words]
        forms = [self._vectors.normal_form(text) if text else _NONE for text in texts]
        lower = [text.lower() for text in texts]
        ids = self._vectors.ids(forms)
        kinds = look_up(self._readings, ids)
        told: list[tuple[int, int, int, bool, bool]] = []
        for word, text, form, small, listed, kind in zip(
            words, texts, forms, lower, ids.tolist(), kinds.tolist(), strict=True
        ):
            if not text:
                other = _PUNCTUATION if word.kind is _MARK else _IDENTIFIER
                told.append((listed, other, 0, True, False))
            # One that is listed is a word among its like, and moves as they do.
            elif listed < 0 and _SIGN.fullmatch(text):
                told.append((listed, _PUNCTUATION, 0, True, _otherwise(form, small, text)))
            else:
                never = word.clitic or form == text in _CONNECTING
                told.append((listed, kind, 0, never, _otherwise(form, small, text)))
        facts = np.array(told, _FACTS)
        if self._ask:
            facts["look"] = looks(words, kinds)
            same = [a == b or a.lower() == b for a, b in zip(forms, lower, strict=True)]
            but_case = np.where(facts["look"] < FIRST_WORD, 0, np.where(same, ids, -1))
            alone = self._ask(texts, but_case)
            self.alone = np.concatenate([self.alone, alone]) if len(self.alone) else alone
        self.forms += forms
        self.facts = np.concatenate([self.facts, facts]) if len(self.facts) else facts


def _otherwise(form: str, small: str, text: str) -> bool:
    """Return whether a word differs from its look-up form in more than case.

    Otherwise, an accent or invisible character that the look-up form drops could leave the device
    unnoticed. A word that passes must be typed as it is listed.

    Args:
        form, small, text: the look-up form, the word in small letters, and the word as typed.
    """
    if form == small:
        return False
    plain = text.replace("’", "'")
    return form not in (plain, plain.lower())


_CONTRADICTION: Final = "PUNCT"
"""A form that is no punctuation but is tagged as such is a contradiction, hence covered."""


class Contextual:
    """Weighs tags beside kinds, for one mechanism under one policy.

    Args:
        tagger: names parts of speech.
        mechanism: what it protects, it protects by part of speech.
        policy: treats a part of speech as the reading that its words mostly have.
        unsure_below: a word whose tag is less probable than this never passes.
    """

    def __init__(
        self, tagger: Tagger, mechanism: Mechanism, policy: Policy, unsure_below: float
    ) -> None:
        self.tagset = tagger.tagset
        self.reach = tagger.reach
        self._tagger = tagger
        self._unsure_below = unsure_below
        self._kinds = np.array([KINDS.index(BY_TAG[tag]) for tag in tagger.tagset], np.uint8)
        self._table = np.array(
            [
                max(
                    policy.table[BY_TAG[tag]],
                    Treatment.NOISE
                    if mechanism.protects(tag) or tag == _CONTRADICTION
                    else Treatment.PASS,
                )
                for tag in tagger.tagset
            ],
            np.uint8,
        )

    def weigh(
        self, words: Sequence[Word], kinds: NDArray[np.uint8], treatments: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Names and treatments of consecutive words.

        Args:
            words: the words.
            kinds: Ints1d (n,), what each is without a tagger, places in `KINDS`.
            treatments: Ints1d (n,), what that asks for.

        Returns:
            Ints1d (n,), the kinds of words to be drawn, marks and identifiers, and else the tags,
            counted on from `KINDS`; and Ints1d (n,), the heavier of both treatments.
        """
        tags = self._tagger.tag([word.text for word in words])
        asked = self._table[tags.ids]
        unsure = ~(tags.confidence >= self._unsure_below)
        asked[unsure] = np.maximum(asked[unsure], _NOISE)
        own = np.array([word.kind is not Kind.WORD for word in words]) | (treatments == _DRAW)
        asked[own] = treatments[own]
        named = np.where(asked == _DRAW, self._kinds[tags.ids], len(KINDS) + tags.ids)
        return np.where(own, kinds, named), np.maximum(asked, treatments)


LONGEST_WORD = 4_096
"""Maximum number of code points in a word or identifier."""

WINDOW = 1_024
"""Words decided at once, which bounds the memory for a long document."""

Stage = Callable[[str], AbstractContextManager[object]]
"""Returns a context manager for the name of a step, entered while the step runs."""

_LIKE_NAMES: Final = np.array([kind in ("NAME", UNLISTED) for kind in KINDS])
_NEITHER: Final = np.zeros(1, np.bool_)
_NAMES: Final = np.array([0, *(KINDS.index(name) for name in NAMES[1:])], np.uint8)
_ANY_NAME: Final = np.uint8(len(NAMES) - 1)


class Finder(Protocol):
    """A finder of names; see `sottovoce.core.text.names`."""

    @property
    def reach(self) -> int:
        """Number of words that the finder reads on either side."""

    def alone(self, words: Sequence[str], ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the features of words without context; see `Alone`."""

    def among(self, alone: NDArray[np.float32], looks: NDArray[np.uint8]) -> Found:
        """Return the names in consecutive words of one document.

        ``alone`` holds the row of each word from the method `alone`.
        """


class Reader(Protocol):
    """A finder that reads the words around a word, for policies that allow it."""

    @property
    def reach(self) -> int:
        """Number of words that the finder reads on either side."""

    def find(self, words: Sequence[str], session: str = "") -> NDArray[np.float32]:
        """Return the probabilities of person, place and organisation: Floats2d (n, at least 3).

        Args:
            words: texts of consecutive words, with "\n" where a line ends.
            session: the conversation, which repeats its earlier texts.
        """


@dataclass(frozen=True, slots=True)
class Decision:
    """The treatment of some consecutive words of a document.

    Attributes:
        words: the words.
        forms: the normal form of each; something that no word has, of marks and identifiers.
        ids: Ints1d (n,), of listed words, else -1.
        tags: Ints1d (n,), what each is called: a place in `KINDS`, or, counted on from there, in
            the tag set of the tagger that was asked. A word to be drawn is always of a kind.
        treatments: Ints1d (n,), of `Treatment`.
        classes: by place, within which class a word moves that gets noise.
        like_names: Bools1d (n + 2,), whether the word before the first, each of them, and the word
            after the last looks as if it belonged to a name.
        reasons: Ints1d (n,), what each hides, places in `personal.REASONS`; 0 where the policy's
            table decided.
    """

    words: Sequence[Word]
    forms: Sequence[str]
    ids: NDArray[np.int32]
    tags: NDArray[np.uint8]
    treatments: NDArray[np.uint8]
    classes: Mapping[int, str]
    like_names: NDArray[np.bool_]
    reasons: NDArray[np.uint8]

    def drawn(self) -> list[int]:
        """Return the places of the words to be drawn anew, ascending."""
        found: list[int] = np.flatnonzero(self.treatments == _DRAW).tolist()
        return found


class Decider:
    """Decides the treatment of words with one bundle. Safe to share between threads.

    Args:
        bundle: the words.
        readings: of the words, see `TrustedWords`.
        finder: finds names. None where there is no finder: then all that has a capital is a name.
        tagger: opens the tagger, for mechanisms that read context.
        unsure_below: a word whose tag is less probable than this never passes.
        stage: see `Privatizer`.
        reader: opens the finder that reads the context. Where it opens none, the other finder is
            asked, and words that it takes for names are names.
    """

    def __init__(
        self,
        bundle: Bundle,
        readings: NDArray[np.uint8],
        finder: Finder | None,
        tagger: Callable[[], Tagger],
        unsure_below: float,
        stage: Stage,
        reader: Callable[[], Reader | None] = lambda: None,
    ) -> None:
        self._reader = reader
        self._readings = readings
        self._vectors = Vectors(bundle)
        self._finder = finder
        self._tagger = tagger
        self._unsure_below = unsure_below
        self._stage = stage
        self._tables: dict[tuple[str, Mechanism | None], NDArray[np.uint8]] = {}

    def context(self, mechanism: Mechanism, policy: Policy) -> Contextual | None:
        """Return the tagger's part in the decision, or None if a word's own kind decides.

        Raises:
            NotReady: the mechanism reads context, and there is no tagger.
        """
        if not mechanism.contextual or mechanism.tags is None:  # all in one class
            return None
        return Contextual(self._tagger(), mechanism, policy, self._unsure_below)

    def decide(
        self,
        words: Iterable[Word],
        mechanism: Mechanism,
        policy: Policy,
        context: Contextual | None,
        forced: Spans | None = None,
    ) -> Iterator[Decision]:
        """Yield decisions window by window, with the same result as for the whole document.

        Args:
            words: of the document, in order.
            mechanism, policy, context: of the request.
            forced: where a word is drawn, whatever the policy says of it.

        Raises:
            InvalidInput: a word over 4,096 characters.
        """
        table = self._table(policy, None if context else mechanism)
        names = (*KINDS, *(context.tagset if context else ()))
        reach = max([0, *(asked.reach for asked in (self._finder, context) if asked)])
        alone = self._finder.alone if self._finder else None
        known = KnownWords(self._vectors, self._readings, alone)
        for seen, own in self._windows(words, reach):
            with self._stage("readings"):
                which = known.numbers(seen)
                facts = known.facts[which]
                kinds = facts["kind"]
            with self._stage("names"):
                like = np.concatenate([_NEITHER, _LIKE_NAMES[kinds], _NEITHER])
                around = like[own.start : own.stop + 2]
                if self._finder:
                    named = self._finder.among(known.alone[which], facts["look"]).kinds
                else:
                    named = np.array([word.text != word.text.lower() for word in seen]) * _ANY_NAME
                kinds = np.where(facts["never"] | (named == 0), kinds, _NAMES[named])
                tags, treatments = kinds, table[kinds]
                if context:
                    tags, treatments = context.weigh(seen, kinds, treatments)
            with self._stage("readings"):
                window, forms = seen[own], [known.forms[number] for number in which[own].tolist()]
                other = (treatments == _PASS) & facts["otherwise"]
                treatments = np.where(other, _NOISE, treatments).astype(np.uint8)[own]
                tags, reasons = tags[own], np.zeros(len(window), np.uint8)
                if forced:
                    tags, treatments = tags.copy(), treatments.copy()
                    _force(window, forced, tags, treatments, reasons)
                classes = _classes(window, tags, treatments, names, mechanism)
            yield Decision(
                window, forms, facts["id"][own], tags, treatments, classes, around, reasons
            )

    def decide_in_context(
        self, document: str, words: Iterable[Word], personal: Personal, session: str = ""
    ) -> Iterator[Decision]:
        """Yield the decisions of a policy that reads the context, window by window.

        Args:
            document: the whole text.
            words: of the document, in order.
            personal: weighs what is found.
            session: see `Reader.find`.

        Raises:
            InvalidInput: a word over 4,096 characters.
        """
        reader, read = self._reader(), personal.read(document)
        finder = None if reader else self._finder
        reach = REACH + (reader.reach if reader else finder.reach if finder else 0)
        known = KnownWords(self._vectors, self._readings, finder.alone if finder else None)
        for seen, own in self._windows(words, reach):
            with self._stage("readings"):
                which = known.numbers(seen)
                facts = known.facts[which]
            with self._stage("names"):
                if reader:
                    found = _read(reader, document, seen, session)
                elif finder:
                    found = _by_looks(finder.among(known.alone[which], facts["look"]))
                else:
                    named = [word.text != word.text.lower() for word in seen]
                    found = np.repeat(np.array(named, np.float32)[:, None] / 3, 3, axis=1)
                tags, treatments, reasons = personal.weigh(
                    document, seen, found, facts["kind"], read
                )
                like = np.concatenate([_NEITHER, treatments == _DRAW, _NEITHER])
            yield Decision(
                seen[own],
                [known.forms[number] for number in which[own].tolist()],
                facts["id"][own],
                tags[own],
                treatments[own],
                {},
                like[own.start : own.stop + 2],
                reasons[own],
            )

    def _table(self, policy: Policy, mechanism: Mechanism | None) -> NDArray[np.uint8]:
        """Return the treatment of each of `KINDS`; a table of each setting is kept."""
        key = policy.name, mechanism
        if key not in self._tables:
            self._tables[key] = _table(policy, mechanism)
        return self._tables[key]

    def _windows(self, words: Iterable[Word], reach: int) -> Iterator[tuple[list[Word], slice]]:
        """Yield windows with ``reach`` more words on either side, and the place of each window."""
        stream = iter(words)
        before: list[Word] = []
        ahead: list[Word] = []
        while True:
            with self._stage("words"):
                taken = ahead + list(islice(stream, WINDOW - len(ahead) + reach))
                window, ahead = taken[:WINDOW], taken[WINDOW:]
                _check_lengths(window)
            if not window:
                return
            yield before + taken, slice(len(before), len(before) + len(window))
            before = (before + window)[-reach:] if reach else []


def _force(
    words: Sequence[Word],
    forced: Spans,
    tags: NDArray[np.uint8],
    treatments: NDArray[np.uint8],
    reasons: NDArray[np.uint8],
) -> None:
    """Have the words drawn that the owner hides; a word that is drawn anyway keeps its kind."""
    for place, word in enumerate(words):
        if word.kind is Kind.PUNCTUATION or not forced.hides(word):
            continue
        reasons[place] = REASONS.index(LISTED)
        if treatments[place] != _DRAW:
            treatments[place] = _DRAW
            tags[place] = KINDS.index(drawn_as(word, LISTED))


def _read(
    reader: Reader, document: str, words: Sequence[Word], session: str
) -> NDArray[np.float32]:
    """Ask the reader, with each line's end as a word."""
    texts: list[str] = []
    places: list[int] = []
    end = words[0].start if words else 0
    for word in words:
        if "\n" in document[end : word.start]:
            texts.append("\n")
        places.append(len(texts))
        texts.append(word.text)
        end = word.end
    return reader.find(texts, session)[places]


def _by_looks(found: Found) -> NDArray[np.float32]:
    """Return the probability of the kind that a word was taken for, in that kind's column."""
    table = np.zeros((len(found.kinds), len(NAMES) - 1), np.float32)
    which = np.flatnonzero(found.kinds)
    table[which, found.kinds[which] - 1] = found.probability[which]
    return table


def _table(policy: Policy, mechanism: Mechanism | None) -> NDArray[np.uint8]:
    """The treatment of each of `KINDS`: the policy's, or noise where the mechanism adds some."""
    table = dict(policy.table)
    for kind in READINGS:
        if mechanism and mechanism.protects(kind):
            table[kind] = max(table[kind], Treatment.NOISE)
    return np.array([table[kind] for kind in KINDS], np.uint8)


def _classes(
    words: Sequence[Word],
    tags: NDArray[np.uint8],
    treatments: NDArray[np.uint8],
    names: Sequence[str],
    mechanism: Mechanism,
) -> dict[int, str]:
    """Within which class each word moves that gets noise, by its place."""
    numbers = tags.tolist()
    places = np.flatnonzero(treatments == _NOISE).tolist()
    kinds = [(numbers[place], words[place].clitic) for place in places]
    known = {kind: mechanism.word_class(names[kind[0]], kind[1]) for kind in set(kinds)}
    return {place: known[kind] for place, kind in zip(places, kinds, strict=True)}


def _check_lengths(words: Sequence[Word]) -> None:
    for _, start, end, kind, _ in words:
        if end - start > LONGEST_WORD and kind is not Kind.PUNCTUATION:
            raise InvalidInput(
                f"the word at character {start} has {end - start} characters,"
                f" at most {LONGEST_WORD} are taken",
                fix="take encoded or binary content out of the text",
                subject="text",
            )
