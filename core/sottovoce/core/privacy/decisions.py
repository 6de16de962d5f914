"""Decides the treatment of each word of a text, before anything is drawn.

Only this module weighs a word, its possible name and a policy against one another. It passes on a
treatment and a class. Noise, search and surrogates see nothing else. In doubt, a word is protected.

Neighbours count by their looks alone, which the release shows anyway. Exchanging a neighbour for a
word with the same looks changes no decision. A mechanism that reads context gives this up, see
`sottovoce.core.privacy.contextual`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.contextual import Contextual
from sottovoce.core.privacy.known_words import KnownWords
from sottovoce.core.privacy.mechanisms.interface import Mechanism
from sottovoce.core.privacy.policies import KINDS, NAMES, Policy, Treatment
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.names import Found
from sottovoce.core.text.tagger import Tagger
from sottovoce.core.text.word_classes import READINGS, UNLISTED
from sottovoce.core.text.words import Kind, Word

__all__ = ["LONGEST_WORD", "WINDOW", "Decider", "Decision", "Finder", "Stage"]

LONGEST_WORD = 4_096
"""Maximum number of code points in a word or identifier."""

WINDOW = 1_024
"""Words decided at once, which bounds the memory for a long document."""

Stage = Callable[[str], AbstractContextManager[object]]
"""Returns a context manager for the name of a step, entered while the step runs."""

_LIKE_NAMES: Final = [KINDS.index("NAME"), KINDS.index(UNLISTED)]
_NAMES: Final = np.array([0, *(KINDS.index(name) for name in NAMES[1:])], np.uint8)
_ANY_NAME: Final = np.uint8(len(NAMES) - 1)


class Finder(Protocol):
    """A finder of names; see `sottovoce.core.text.names`."""

    @property
    def reach(self) -> int:
        """Number of words that the finder reads on either side."""

    def alone(self, words: Sequence[str], ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the features of words without context; see `known_words.Alone`."""

    def among(self, alone: NDArray[np.float32], looks: NDArray[np.uint8]) -> Found:
        """Return the names in consecutive words of one document.

        ``alone`` holds the row of each word from the method `alone`.
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
    """

    words: Sequence[Word]
    forms: Sequence[str]
    ids: NDArray[np.int32]
    tags: NDArray[np.uint8]
    treatments: NDArray[np.uint8]
    classes: Mapping[int, str]
    like_names: NDArray[np.bool_]

    def drawn(self) -> list[int]:
        """Return the places of the words to be drawn anew, ascending."""
        found: list[int] = np.flatnonzero(self.treatments == Treatment.DRAW).tolist()
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
    """

    def __init__(
        self,
        bundle: Bundle,
        readings: NDArray[np.uint8],
        finder: Finder | None,
        tagger: Callable[[], Tagger],
        unsure_below: float,
        stage: Stage,
    ) -> None:
        self._readings = readings
        self._vectors = Vectors(bundle)
        self._finder = finder
        self._tagger = tagger
        self._unsure_below = unsure_below
        self._stage = stage

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
    ) -> Iterator[Decision]:
        """Yield decisions window by window, with the same result as for the whole document.

        Raises:
            InvalidInput: a word over 4,096 characters.
        """
        table = _table(policy, None if context else mechanism)
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
                like = np.concatenate([[False], np.isin(kinds, _LIKE_NAMES), [False]])
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
                other = (treatments == Treatment.PASS) & facts["otherwise"]
                treatments = np.where(other, Treatment.NOISE, treatments).astype(np.uint8)[own]
                classes = _classes(window, tags[own], treatments, names, mechanism)
            yield Decision(window, forms, facts["id"][own], tags[own], treatments, classes, around)

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
    places = np.flatnonzero(treatments == Treatment.NOISE).tolist()
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
