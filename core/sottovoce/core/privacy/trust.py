"""Checks a bundle's words and name finder against the device's own lists.

The provider makes the bundle, and the provider must not learn the text. So nothing in the
bundle can make the treatment of a word lighter than the device's own lists would. The device
looks at this whenever it opens a bundle, within some 0.1 s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle, unsound
from sottovoce.core.bundle.word_list import WordIds, WordList
from sottovoce.core.privacy.policies import POLICIES
from sottovoce.core.text.frequencies import PublicReadings, normal_form
from sottovoce.core.text.names import NameFinder
from sottovoce.core.text.word_classes import READINGS, UNLISTED, looks
from sottovoce.core.text.words import Kind, Word, split

MOST_MISSED: Final = 0.03
"""The share of the words of marked names that a finder may leave. The default finder leaves two of
383."""
MOST_MISSED_OF_A_KIND: Final = 1 / 6
"""The same for one kind of name. The smallest kind has nine words."""

_ALL: Final = (*READINGS, UNLISTED)
_COVERS: Final = np.array(
    [
        [
            all(policy.table[one] >= policy.table[other] for policy in POLICIES.values())
            for other in _ALL
        ]
        for one in _ALL
    ]
)
"""Whether no policy treats the first of two readings more lightly than the second."""

_AT_ONCE: Final = 4_096
_OF_A_PART: Final = 1 << 15
"""Words that are looked up in one pass through the first list: bounds the memory."""
_MARK: Final = re.compile(r"[\[\]]")
_SMALL: Final = frozenset({"of", "the"})
"""Words within a name that tell nothing."""


@dataclass(frozen=True, slots=True)
class TrustedWords:
    """The readings that the device uses for a bundle's words.

    Attributes:
        readings: Ints1d (words,), places in ``(*READINGS, UNLISTED)``.
        clitics: the endings to cut off as words.
        changed: how many words the bundle would treat more lightly.
    """

    readings: NDArray[np.uint8]
    clitics: tuple[str, ...]
    changed: int

    @classmethod
    def of(cls, bundle: Bundle, *, accept_unchecked: bool = False) -> Self:
        """Take the bundle's reading of a word if it hides as much as the device's own reading.

        A word that the device does not know counts as unlisted and is drawn, unless the bundle
        says that it is always drawn.

        Args:
            bundle: of any origin.
            accept_unchecked: believe the bundle where the device has no list of its language.

        Raises:
            DataLoss: the device's list is damaged, or the bundle's.
        """
        public = PublicReadings.shipped(bundle.manifest.language)
        theirs = np.array(bundle.readings)
        if public is None and accept_unchecked:
            return cls(theirs, bundle.manifest.clitics, 0)
        own = np.full(len(theirs), len(READINGS), np.uint8)
        if public is not None:
            words = iter(bundle.words)
            parts = range(0, len(theirs), _OF_A_PART)
            own = np.concatenate([public.of(islice(words, _OF_A_PART)) for _ in parts])
            _add_more(own, np.flatnonzero(~_COVERS[theirs, own]), bundle, public)
        lighter = ~_COVERS[theirs, own]
        known = public.clitics if public else frozenset()
        clitics = tuple(each for each in bundle.manifest.clitics if each in known)
        return cls(np.where(lighter, own, theirs), clitics, int(lighter.sum()))


def _add_more(
    own: NDArray[np.uint8], wanted: NDArray[np.intp], bundle: Bundle, public: PublicReadings
) -> None:
    """Give words that the first list does not know their readings of the second list.

    Only bundles with more words than the default bundle need the second list. It is searched in
    the mapped file, because its words as a dictionary would take 20 MB.

    Args:
        own: Ints1d (words,), readings of the first list. They are changed in place.
        wanted: the places of words that need a reading.
        public: the first list.
    """
    file = resources.files("sottovoce.core.text") / f"more_readings.{public.language}.tsv"
    wanted = wanted[own[wanted] == len(READINGS)]
    if not len(wanted) or not file.is_file():
        return
    with resources.as_file(file) as path:
        listed = WordList(path)
    ids = WordIds(listed)
    begins = np.array([ids.get(f"\t{reading}", len(listed)) for reading in READINGS])
    order = np.argsort(begins, kind="stable")
    for start in range(0, len(wanted), _AT_ONCE):
        places = wanted[start : start + _AT_ONCE]
        words = bundle.words.take(places.tolist())
        found = ids.of([normal_form(word, accents=public.accents) for word in words])
        known = found >= 0
        which = np.searchsorted(begins[order], found[known], "right") - 1
        own[places[known]] = order[which]


def open_finder(bundle: Bundle, *, accept_unchecked: bool = False) -> NameFinder | None:
    """The bundle's name finder, if the device may use it.

    Args:
        bundle: of any origin.
        accept_unchecked: use the finder where the device has no marked sentences of its language.

    Returns:
        None where the bundle has no finder, or an unchecked one; then every word with a capital
        counts as a name.

    Raises:
        BundleMismatch: the finder misses too many names. BundleMismatch, DataLoss: see
            `NameFinder.load`.
    """
    if not bundle.names_folder.is_dir():
        return None
    finder = NameFinder.load(bundle.names_folder, words=bundle.manifest.words)
    public = PublicReadings.shipped(bundle.manifest.language)
    sentences = _sentences(bundle.manifest.language)
    if public is not None and sentences:
        _check_finder(finder, public, sentences)
    elif not accept_unchecked:
        return None
    return finder


def _check_finder(
    finder: NameFinder, public: PublicReadings, sentences: Sequence[_Sentence]
) -> None:
    """Refuse a finder that misses too many of the names in the device's own sentences.

    The finder sees the words' readings from the device's list, so that the result does not depend
    on which words the bundle lists. The finder's table of listed words is not used: to read it
    would map 6 MB, and `inspect` checks it.

    Raises:
        BundleMismatch: the finder misses over `MOST_MISSED` of all words of names, or over
            `MOST_MISSED_OF_A_KIND` of one kind of name. The kind may be one of persons of one
            region, of names in small letters, or of names that are ordinary words.
    """
    number: dict[str, int] = {}
    for sentence in sentences:
        for word in sentence.words:
            number.setdefault(word.text, len(number))
    readings = public.of(number)
    missed: dict[str, list[bool]] = {}
    try:
        alone = finder.alone([*number], np.full(len(number), -1, np.int32))
        for sentence in sentences:
            which = [number[word.text] for word in sentence.words]
            seen = looks(sentence.words, readings[which])
            kinds = finder.among(alone[which], seen).kinds
            missed.setdefault(sentence.kind, []).extend((kinds[sentence.names] == 0).tolist())
    except (IndexError, ValueError, ArithmeticError) as error:
        raise unsound("its name finder fails on the device's own sentences") from error
    everything = [each for kind in missed.values() for each in kind]
    _refuse_over("names", everything, MOST_MISSED)
    for kind, each in missed.items():
        _refuse_over(f"names of the kind {kind!r}", each, MOST_MISSED_OF_A_KIND)


def _refuse_over(what: str, missed: Sequence[bool], most: float) -> None:
    if sum(missed) > most * len(missed):
        raise unsound(
            f"its name finder misses {sum(missed)} of {len(missed)} words of {what} in the "
            f"device's own sentences, and may miss {most:.0%}"
        )


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of the device's own; ``names`` are the places of the words of names."""

    kind: str
    words: Sequence[Word]
    names: Sequence[int]


def _sentences(language: str) -> tuple[_Sentence, ...]:
    """Return the marked sentences of a language; none if none ship."""
    file = resources.files("sottovoce.core.text") / f"marked.{language}.tsv"
    if not language.isalpha() or not file.is_file():
        return ()
    return tuple(map(_marked, file.read_text("utf-8").splitlines()))


def _marked(line: str) -> _Sentence:
    """The sentence in a line: its kind, a tab, and a text with each name in square brackets."""
    kind, text = line.split("\t")
    marks = [mark.start() - place for place, mark in enumerate(_MARK.finditer(text))]
    words = split(_MARK.sub("", text), ("'s",))
    spans = list(zip(marks[::2], marks[1::2], strict=True))
    names = [
        place
        for place, word in enumerate(words)
        if word.kind is Kind.WORD and not word.clitic and word.text not in _SMALL
        if any(start <= word.start < end for start, end in spans)
    ]
    return _Sentence(kind, words, names)
