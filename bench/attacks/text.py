"""Running text as numbers, with the parts of speech people gave it.

Why it is here: every mechanism is attacked on the same words, cut as the device cuts them, and
judged by tags that no mechanism chose. The private text is a treebank that no count and no language
model has seen; what attackers prepare with is other, public text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.words import Kind, split
from sottovoce.models.corpus import read_conllu

__all__ = ["BOUNDARY", "UNTAGGED", "Ints", "Lexicon", "Text", "read_treebank"]

Ints = NDArray[np.int32]

BOUNDARY: Final = "\n"
"""The boundary between two sentences."""
UNTAGGED: Final = -1


class Lexicon:
    """Numbers of forms: the bundle's words with their own ids, then other words as they appear."""

    def __init__(self, bundle: Bundle) -> None:
        self._vectors = Vectors(bundle)
        self._listed = bundle.word_ids
        self._numbers: dict[str, int] = {}
        self._by_form: dict[str, int] = {}
        self._forms: list[str] = [*bundle.words]
        self.listed = bundle.manifest.words
        self.boundary = self.number(BOUNDARY)

    def number(self, word: str) -> int:
        """Return the number of a word in a text: its form's id, or one past the list."""
        if word not in self._numbers:
            form = word if word == BOUNDARY else self._vectors.normal_form(word)
            number = self._listed.get(form)
            if number is None:
                number = self._by_form.setdefault(form, self.listed + len(self._by_form))
                if number == len(self._forms):
                    self._forms.append(form)
            self._numbers[word] = number
        return self._numbers[word]

    def written(self, numbers: Ints) -> str:
        """Return the forms with these numbers, separated by spaces."""
        return " ".join(self._forms[number] for number in numbers.tolist())

    def __len__(self) -> int:
        """Return the number of numbered forms."""
        return self.listed + len(self._by_form)


@dataclass(frozen=True)
class Text:
    """Sentences and their n words.

    Attributes:
        documents: one sentence each.
        ids: Ints1d (n,), see `Lexicon`.
        gold: Ints1d (n,), places in `UPOS`, or `UNTAGGED`.
        sentence: Ints1d (n,), the place of each word's sentence.
        identifier, punctuation: Bools1d (n,), see `sottovoce.core.text.words.Kind`.
        clitic: Bools1d (n,).
    """

    documents: tuple[str, ...]
    ids: Ints
    gold: Ints
    sentence: Ints
    identifier: NDArray[np.bool_]
    punctuation: NDArray[np.bool_]
    clitic: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        documents: Sequence[Sequence[str] | str],
        lexicon: Lexicon,
        clitics: Sequence[str],
        gold: Sequence[Sequence[int]] | None = None,
    ) -> Text:
        """Cuts ``documents`` as the device does.

        Args:
            documents: texts, or tokens that are joined with spaces.
            lexicon: numbers the words.
            clitics: of the bundle.
            gold: for documents of tokens, the tag of each.
        """
        texts: list[str] = []
        columns: list[tuple[int, int, int, bool, bool, bool]] = []
        for place, document in enumerate(documents):
            text = document if isinstance(document, str) else " ".join(document)
            ends = _ends(document) if gold is not None and not isinstance(document, str) else None
            for word in split(text, clitics):
                tag = UNTAGGED
                if ends is not None and gold is not None:
                    tag = gold[place][int(np.searchsorted(ends, word.start, side="right"))]
                columns.append(
                    (
                        lexicon.number(word.text),
                        tag,
                        place,
                        word.kind is Kind.IDENTIFIER,
                        word.kind is Kind.PUNCTUATION,
                        word.clitic,
                    )
                )
            texts.append(text)
        table = np.array(columns, np.int32).reshape(-1, 6)
        flags = table[:, 3:].astype(bool)
        ids, tags, sentence = (column.copy() for column in table[:, :3].T)
        identifier, punctuation, clitic = flags.T
        return cls(tuple(texts), ids, tags, sentence, identifier, punctuation, clitic)

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.ids)

    def tagged(self, tags: Sequence[str]) -> NDArray[np.bool_]:
        """Return the words that people gave one of ``tags``: Bools1d (n,)."""
        found: NDArray[np.bool_] = np.isin(self.gold, [UPOS.index(tag) for tag in tags])
        return found & ~self.punctuation


def _ends(tokens: Sequence[str]) -> NDArray[np.int64]:
    """Return the end of each token, with the space after it."""
    ends: NDArray[np.int64] = np.cumsum([len(token) + 1 for token in tokens])
    return ends


def read_treebank(
    path: Path, sentences: int, lexicon: Lexicon, clitics: Sequence[str], least: int = 6
) -> Text:
    """Read ``sentences`` of a treebank, evenly spaced, each of at least ``least`` tokens."""
    found = [each for each in read_conllu(path) if len(each.words) >= least]
    found = found[:: max(1, len(found) // sentences)][:sentences]
    gold = [[tags.bit_length() - 1 for tags in each.allowed] for each in found]
    return Text.of([each.words for each in found], lexicon, clitics, gold)
