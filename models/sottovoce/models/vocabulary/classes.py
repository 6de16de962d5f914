"""Sorts the words into classes whose members replace one another.

Why it is here: under PCT2T a word may become any word of its part of speech (RAPT v2 section
III-A2), so the classes decide what a released sentence can look like and how many words one can
hide among. They come from public counts; words those never met are shown to the tagger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.manifest import ANY, class_name
from sottovoce.core.text.tagger import UPOS, Tagger
from sottovoce.models.vocabulary.vocabulary import Vocabulary

__all__ = [
    *("CLASS_TAGS", "CLOSED", "CLOSED_TIMES", "Carriers"),
    *("classes", "from_counts", "tagger_votes"),
]

CLASS_TAGS: Final = tuple(tag for tag in UPOS if tag != "PUNCT")
"""Punctuation is never released as a word."""

Carriers = Sequence[Sequence[str | None]]
"""Neutral surroundings for a word nobody has met, see `sottovoce.models.corpus.language`."""

_SHARE: Final = 0.05
_TIMES: Final = 2
CLOSED: Final = frozenset({"ADP", "AUX", "CCONJ", "DET", "PART", "PRON", "SCONJ"})
"""Parts of speech that take no new words: a slip of the tagger must not add to them."""
CLOSED_TIMES: Final = 20
"""Fewer meetings of a word in a closed class are taken for slips."""

_FEWEST: Final = 4
"""A smaller class would name its words; they are replaced among all words instead."""


def classes(
    vocabulary: Vocabulary, tagger: Tagger, carriers: Carriers
) -> dict[str, NDArray[np.int32]]:
    """Word ids of each class, ascending; first all free words, then all clitics.

    All free words and all clitics form the classes of T2T. A word belongs to a part of speech if it
    is what the word most often is, or at least 2 occurrences and 5 % of them; fewer than 20
    occurrences in a closed class count only for a word never met in an open one. Words without
    counts get what the tagger most often says in the language's carrier sentences, in small letters
    and capitalised.
    """
    tagged = from_counts(vocabulary.counts)
    unseen = np.flatnonzero(~vocabulary.counts.any(axis=1) & ~vocabulary.clitic)
    tagged[unseen] = _from_tagger([vocabulary.words[word] for word in unseen], tagger, carriers)
    found: dict[str, NDArray[np.int32]] = {}
    for tag in (ANY, *CLASS_TAGS):
        tagged_so = tagged[:, UPOS.index(tag)] if tag != ANY else np.ones(len(tagged), np.bool_)
        for attached in (False, True):
            ids = np.flatnonzero(tagged_so & (vocabulary.clitic == attached)).astype(np.int32)
            if len(ids) >= _FEWEST or (tag == ANY and len(ids)):
                found[class_name(tag, attached)] = ids
    return found


def from_counts(counts: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which tags a word has by ``counts`` Floats2d (words, tags): Bools2d of the same shape."""
    totals = counts.sum(axis=1, keepdims=True)
    least = np.array([CLOSED_TIMES if tag in CLOSED else _TIMES for tag in UPOS])
    tagged: NDArray[np.bool_] = (counts >= least) & (counts >= _SHARE * totals)
    believed = np.where((counts >= least) | (least == _TIMES), counts, counts * 1e-9)
    top = believed.argmax(axis=1)
    met = np.flatnonzero(totals[:, 0])
    tagged[met, top[met]] = True
    return tagged


def tagger_votes(words: list[str], tagger: Tagger, carriers: Carriers) -> NDArray[np.float32]:
    """How sure the tagger is of each tag, summed over the carriers: Floats3d (2, words, tags), for
    words in small letters and for Capitalised ones."""
    votes = np.zeros((2, len(words), len(UPOS)), np.float32)
    for written in range(2):
        forms = [word.capitalize() if written else word for word in words]
        for carrier in carriers:
            place = carrier.index(None)
            text = [form if slot is None else slot for form in forms for slot in carrier]
            tags = tagger.tag(text)
            at = slice(place, None, len(carrier))
            votes[written, np.arange(len(words)), tags.ids[at]] += tags.confidence[at]
    return votes


def _from_tagger(words: list[str], tagger: Tagger, carriers: Carriers) -> NDArray[np.bool_]:
    """Bools2d (words, tags): one or two tags a word."""
    votes = tagger_votes(words, tagger, carriers)
    tagged = np.zeros((len(words), len(UPOS)), np.bool_)
    open_tags = [column for column, tag in enumerate(UPOS) if tag not in CLOSED | {"PUNCT"}]
    for written in range(2):
        best = votes[written][:, open_tags].argmax(axis=1)
        tagged[np.arange(len(words)), np.array(open_tags)[best]] = True
    return tagged
