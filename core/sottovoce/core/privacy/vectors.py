"""Maps every word, listed or not, to its vector in the privacy space.

A listed word has a row. Any other form gets the mean of its token embeddings (RAPT v2 section
III-A2). No listed word shares that mean, so the form cannot be released unchanged. This module
forgets every word when the call returns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Floats2d

OUT_OF_VOCABULARY = -1


class Vectors:
    """Word to vector over one bundle. Safe to share between threads.

    Raises:
        DataLoss: the bundle's tokenizer cannot be read.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._ids = bundle.word_ids
        self._tokenizer = bundle.tokenizer
        self._normalize = self._tokenizer.normalize
        self._lowers = self._normalize("aZ'") == "az'"

    def normal_form(self, word: str) -> str:
        """Return the look-up form of ``word``: the tokenizer's form, with a plain apostrophe.

        >>> Vectors(bundle).normal_form("Café")  # doctest: +SKIP
        'cafe'
        """
        if self._lowers and word.isascii() and word.isprintable():
            return word.lower()  # the same, six times faster
        word = _without_surrogates(word).replace("’", "'")
        # Llama's normaliser marks where a word starts; the list holds words without the mark.
        return self._normalize(word).replace("▁", " ").strip()

    def lookup(self, words: Sequence[str]) -> tuple[Floats2d, NDArray[np.int32]]:
        """Vectors and ids of ``words``, see `lookup_forms`."""
        return self.lookup_forms([self.normal_form(word) for word in words])

    def lookup_forms(self, forms: list[str]) -> tuple[Floats2d, NDArray[np.int32]]:
        """Vectors and ids of words by their normal forms.

        Returns:
            Floats2d (n, r), rows of length 1; and Ints1d (n,), the word ids, -1 for a word that is
            not in the list.
        """
        ids = self.ids(forms)
        vectors = self._bundle.space[ids]  # the row of -1 is overwritten below
        unknown = np.flatnonzero(ids == OUT_OF_VOCABULARY)
        if len(unknown):
            vectors[unknown] = self._from_tokens([forms[place] for place in unknown])
        return vectors, ids

    def ids(self, forms: Sequence[str]) -> NDArray[np.int32]:
        """Ids of words by their normal forms: Ints1d (n,), -1 for unlisted words."""
        return self._ids.of(forms)

    def _from_tokens(self, forms: list[str]) -> Floats2d:
        tokens = self._bundle.token_rows
        means = np.zeros((len(forms), tokens.shape[1]), np.float64)
        for mean, form in zip(means, forms, strict=True):
            # Not in a batch: for a few words its threads cost more than they save.
            ids = self._tokenizer.ids(form)
            if ids:
                tokens[ids].mean(axis=0, dtype=np.float64, out=mean)
        # A form without tokens has no direction; any fixed one will do, for it is always replaced.
        return unit_rows(means)


def unit_rows(rows: NDArray[np.floating]) -> Floats2d:
    """``rows`` (n, r) scaled to length 1; a row of zeros becomes the first unit vector."""
    scaled = rows.astype(np.float64)
    lengths = np.linalg.norm(scaled, axis=1)
    scaled[lengths == 0, 0] = lengths[lengths == 0] = 1.0
    unit: Floats2d = (scaled / lengths[:, None]).astype(np.float32)
    return unit


def _without_surrogates(word: str) -> str:
    """``word`` as valid Unicode; halves of a surrogate pair become U+FFFD."""
    return word.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
