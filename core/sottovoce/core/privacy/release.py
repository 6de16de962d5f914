"""The result for one document: the released text, and a report on every word for its owner.

A document of 50,000 words must not cost 50,000 objects. The report takes seven bytes a word, in the
order of the words. Their positions follow from splitting the document again. Parts of speech are
named on request.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import ne

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.privacy.policies import Setting, Treatment
from sottovoce.core.text.words import Word, iter_words

_LENGTHS, _MARKS = "I", "H"
_TREATMENT, _REPLACED, _TAG = 3, 4, 3  # two bits, one bit, and the rest


@dataclass(frozen=True, slots=True)
class WordRelease:
    """One word and its replacement. For the device only, because it shows the original.

    Attributes:
        start, end: code points, ``document[start:end]`` is the word.
        released_start, released_end: the same in the released text.
        tag: what kind of word it is, of `policies.KINDS`; with a mechanism that reads context, of a
            word that passes or gets noise, its part of speech.
        treatment: how the word was treated.
        replaced: whether the released word differs from the typed one.
        hides: what the word says of a person, of `personal.REASONS`; empty where the policy's table
            decided.
    """

    start: int
    end: int
    released_start: int
    released_end: int
    tag: str
    treatment: Treatment
    replaced: bool
    hides: str = ""

    @property
    def protected(self) -> bool:
        """Return whether the word was protected, which means that it did not pass."""
        return self.treatment is not Treatment.PASS


@dataclass(frozen=True, slots=True)
class Release:
    """A released document; only ``text`` may leave the device.

    Attributes:
        text: the released text.
        document: the original text.
        setting: the requested setting.
        eta: the privacy parameter of the level, the largest of its classes.
        bundle_id: the bundle that resolved it.
        charge: what the ledger is to be charged, its class's eta for each word that got noise.
        tags, clitics: how to read the report.
        lengths: code points of each word's replacement.
        marks: its tag's place in ``tags``, its treatment, whether it differs.
        reasons: what each word hides, by its place in ``known``; empty for nothing.
        known: see ``reasons``.
        always: `Hiding.always` of the choices that decided.
    """

    text: str
    document: str = field(repr=False)
    setting: Setting
    eta: float
    bundle_id: str
    charge: float
    tags: tuple[str, ...] = field(repr=False)
    clitics: tuple[str, ...] = field(repr=False)
    lengths: array[int] = field(repr=False)
    marks: array[int] = field(repr=False)
    reasons: bytes = field(repr=False, default=b"")
    known: tuple[str, ...] = field(repr=False, default=("",))
    always: tuple[str, ...] = field(repr=False, default=())

    @property
    def words(self) -> tuple[WordRelease, ...]:
        """Every word of the document, in order; `each_word` gives them one by one."""
        return tuple(self.each_word())

    def each_word(self) -> Iterator[WordRelease]:
        """Every word of the document, in order."""
        shift = 0  # how much longer the release is so far
        words = iter_words(self.document, self.clitics)
        reasons = self.reasons or bytes(len(self.marks))
        for word, length, mark, reason in zip(
            words, self.lengths, self.marks, reasons, strict=True
        ):
            start = word.start + shift
            shift += length - (word.end - word.start)
            yield WordRelease(
                start=word.start,
                end=word.end,
                released_start=start,
                released_end=start + length,
                tag=self.tags[mark >> _TAG],
                treatment=Treatment(mark & _TREATMENT),
                replaced=bool(mark & _REPLACED),
                hides=self.known[reason],
            )

    def cut(self, place: int) -> tuple[str, str]:
        """The released text before and after the white space that begins at ``place`` of the
        document and is one character long."""
        shift = 0
        for word in self.each_word():
            if word.start > place:
                break
            shift = word.released_end - word.end
        return self.text[: place + shift], self.text[place + shift + 1 :]


class Draft:
    """A release being written, word by word.

    Args:
        document: what was typed; the gaps between its words are copied.
    """

    def __init__(self, document: str) -> None:
        self._document = document
        self._pieces: list[str] = []
        self._done = 0
        self.lengths = array(_LENGTHS)
        self.marks = array(_MARKS)

    def write(
        self,
        words: Sequence[Word],
        texts: Sequence[str],
        tags: NDArray[np.uint8],
        treatments: NDArray[np.uint8],
    ) -> None:
        """Put texts in place of the next words of the document.

        Args:
            words: these words.
            texts: the replacement of each.
            tags, treatments: Ints1d (n,), the number of each word's tag and of its `Treatment`.
        """
        pieces, typed = list[str](), list[str]()
        document, done = self._document, self._done
        for (_, start, end, _, _), text in zip(words, texts, strict=True):
            if done != start:
                pieces.append(document[done:start])
            pieces.append(text)
            typed.append(document[start:end])
            done = end
        self._done = done
        self._pieces.append("".join(pieces))
        self.lengths.extend(map(len, texts))
        # The one comparison of output and input. Nothing depends on it: it is reported to the
        # owner of the text, on the device.
        replaced = np.fromiter(map(ne, texts, typed), np.bool_)
        marks = tags.astype(np.uint16) << _TAG | replaced * np.uint16(_REPLACED) | treatments
        self.marks.frombytes(marks.tobytes())

    def text(self) -> str:
        """The released text, once every word is written."""
        return "".join((*self._pieces, self._document[self._done :]))
