"""Decides what each listed word is by itself, from public counts and lists.

Why it is here: the device looks a word's reading up and asks nobody else, so whatever follows from
it (is the word drawn anew, does it get noise, among which words does it move) is decided here, for
all devices and before any text is seen. Lists come before counts: a word that says where somebody
comes from, or states a fact of their life, is that whatever else it may be.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import DataLoss, NotReady
from sottovoce.core.privacy.mechanisms.pct2t import PCT2T2
from sottovoce.core.privacy.policies import POLICIES, Treatment
from sottovoce.core.privacy.running_text import counts_by_tag
from sottovoce.core.text.public_readings import PublicReadings
from sottovoce.core.text.tagger import UPOS, Tagger
from sottovoce.core.text.word_classes import BY_TAG, READINGS, UNLISTED
from sottovoce.models.corpus.frequencies import FrequencyTable
from sottovoce.models.vocabulary.classes import CLOSED, CLOSED_TIMES, Carriers, tagger_votes
from sottovoce.models.vocabulary.vocabulary import Vocabulary

__all__ = ["FEWEST", "KINDS", "load_facts", "partition", "public_readings", "readings", "shares"]

KINDS: Final = {
    **dict.fromkeys(("nationality", "religion", "ethnicity"), "ORIGIN"),
    **dict.fromkeys(("health", "sexuality", "politics", "crime", "money"), "FACT"),
    "number": "NUMBER",
}
"""The reading that each kind of `load_facts` gives."""

FEWEST: Final = 100
"""A smaller class has no words of its own: they are replaced among all words."""

_OF_TAG: Final = np.array([READINGS.index(BY_TAG[tag]) for tag in UPOS])


def load_facts(folder: Path) -> dict[str, str]:
    """Kind by word, from the ``.tsv`` files in ``folder``.

    Each has a header, then a word in small letters and its kind a line.

    Raises:
        NotReady: no such file. DataLoss: one is something else, or names a kind not in `KINDS`.
    """
    files = sorted(folder.glob("*.tsv"))
    if not files:
        raise NotReady(
            f"no list of facts in {folder}",
            fix="name the repository's models folder with --models; docs/languages.md says what"
            " the list of another language holds",
            subject="facts",
        )
    found: dict[str, str] = {}
    for file in files:
        try:
            with file.open(encoding="utf-8", newline="") as lines:
                rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
                if next(rows) != ["word", "kind"]:
                    raise ValueError("header")
                found |= {word: kind for word, kind in rows}  # noqa: C416 - each row must be two
        except (ValueError, StopIteration) as error:
            raise DataLoss(
                f"{file} is no list of words and kinds",
                fix="write the header word<TAB>kind, then a word and its kind a line",
                subject="facts",
            ) from error
    if unknown := sorted(set(found.values()) - set(KINDS)):
        raise DataLoss(
            f"{folder} names kinds that there are not: {', '.join(unknown)}",
            fix=f"use: {', '.join(KINDS)}",
            subject="facts",
        )
    return found


def readings(
    vocabulary: Vocabulary, tagger: Tagger, carriers: Carriers, facts: Mapping[str, str]
) -> NDArray[np.uint8]:
    """Each word's place in `READINGS`: Ints1d (words,).

    A clitic is a CLITIC, a word of ``facts`` what `KINDS` says, any other what it was most often
    met as; fewer than 20 meetings count for a closed part of speech only where there are no others.
    Words nobody met are what the tagger says of them in the language's carrier sentences.

    Args:
        vocabulary: the words, and their counts by part of speech.
        tagger: see `sottovoce.models.vocabulary.classes`.
        carriers: see there.
        facts: kind by word, see `load_facts`.
    """
    closed = np.isin(np.array(UPOS), list(CLOSED))
    counts = np.where(closed & (vocabulary.counts < CLOSED_TIMES), 1e-9, 1) * vocabulary.counts
    unseen = np.flatnonzero(~counts.any(axis=1) & ~vocabulary.clitic)
    votes = tagger_votes([vocabulary.words[word] for word in unseen], tagger, carriers)
    counts[unseen] = np.where(closed, 0, votes.sum(axis=0))
    together = np.zeros((len(counts), len(READINGS)))
    np.add.at(together.T, _OF_TAG, counts.T)
    found: NDArray[np.uint8] = together.argmax(axis=1).astype(np.uint8)
    for place, word in enumerate(vocabulary.words):
        # Vocabularies with capitals list "German" and "german".
        if kind := facts.get(word) or facts.get(word.lower()):
            found[place] = READINGS.index(KINDS[kind])
    found[vocabulary.clitic] = READINGS.index("CLITIC")
    return found


def partition(found: NDArray[np.uint8], clitic: NDArray[np.bool_]) -> dict[str, NDArray[np.int32]]:
    """Word ids of each class of `pct2t.v2`, ascending: every free word is in one at most.

    Args:
        found: Ints1d (words,), see `readings`.
        clitic: Bools1d (words,); clitics have their class, that of T2T, already.
    """
    mechanism = PCT2T2(1.0, READINGS)
    own = [mechanism.word_class(reading, False) for reading in READINGS]
    names = np.array(own)[found]
    classes = {
        name: np.flatnonzero((names == name) & ~clitic).astype(np.int32)
        for name in dict.fromkeys(own)
    }
    return {name: ids for name, ids in classes.items() if len(ids) >= FEWEST}


def shares(
    vocabulary: Vocabulary, found: NDArray[np.uint8], table: FrequencyTable
) -> dict[str, float]:
    """How much of the words of running text is of each reading, or not listed; they sum to 1.

    Args:
        vocabulary: the words.
        found: Ints1d (words,), see `readings`.
        table: that the words were counted in.
    """
    met = np.bincount(found, vocabulary.counts.sum(axis=1), len(READINGS))
    total = float(table.counts.sum()) + sum(table.left_out.values())
    listed = dict(zip(READINGS, (met / total).tolist(), strict=True))
    return {**listed, UNLISTED: max(0.0, 1 - sum(listed.values()))}


def public_readings(
    table: FrequencyTable, listed: Iterable[str], tagger: Tagger, facts: Mapping[str, str]
) -> PublicReadings:
    """The readings of public words that some policy does not draw.

    Args:
        table: public counts; all of its words are read.
        listed: more words, those of the default bundle.
        tagger: reads words without counts.
        facts: kind by word, see `load_facts`.
    """
    attached = {word for word, flag in zip(table.words, table.clitics, strict=True) if flag}
    # A form that is both is read as the bundle's builder reads it: as a clitic.
    words = tuple(sorted({*map(table.normal_form, listed), *table.words, *facts}))
    clitic = np.array([word in attached for word in words])
    counts = counts_by_tag(words, clitic, table)
    vocabulary = Vocabulary(words, ((),) * len(words), clitic, counts)
    read = readings(vocabulary, tagger, table.language.carriers, facts)
    found = {
        reading: " ".join(words[place] for place in np.flatnonzero(read == number))
        for number, reading in enumerate(READINGS)
        if any(policy.table[reading] is not Treatment.DRAW for policy in POLICIES.values())
    }
    return PublicReadings(table.language.code, table.language.accents, found)
