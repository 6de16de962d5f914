"""Makes the word list: which words of a backbone's vocabulary a device may release.

Why it is here: a released word must be one the backbone knows whole, and one that the device's own
cutter would cut as a single word, or the text that leaves would not be the words that were drawn.
So the list is asked of the backbone's tokenizer and checked with the edge's `words.split`. Letters
of other scripts, which vocabularies of Latin script hold in hundreds, would be odd replacements and
weak hiding places: they stay out unless the frequency table has seen them.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.running_text import counts_by_tag
from sottovoce.core.text.words import Kind, split
from sottovoce.models.corpus.frequencies import FrequencyTable

__all__ = ["Vocabulary", "make", "normal_form", "whole_words"]

_MARKERS = ("Ġ", "▁")
"""How byte-level BPE and SentencePiece write the space before a word."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a bundle; a word's id is its place.

    Attributes:
        words: normal forms, free words in order of their tokens, then the clitics.
        tokens: the token ids of each; one for a free word.
        clitic: Bools1d (words,).
        counts: Floats2d (words, tags), occurrences in public text by `UPOS` tag.
    """

    words: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    clitic: NDArray[np.bool_]
    counts: NDArray[np.float64]


def make(tokenizer: Any, table: FrequencyTable, *, limit: int | None = None) -> Vocabulary:
    """The word list of a backbone.

    Args:
        tokenizer: a fast `transformers` tokenizer.
        table: public word counts, of the language the devices will write.
        limit: keep only the ``limit`` first whole words, for small bundles.

    Raises:
        InvalidInput: the vocabulary holds hardly any whole words.
    """
    normal = normal_form(tokenizer)
    seen = set(table.words)
    free = {
        word: token
        for word, token in whole_words(tokenizer, normal, table.language.clitics)
        if _belongs(word) or table.language.normal_form(word) in seen
    }
    kept = list(free.items())[:limit]
    if len(kept) < 2:
        raise InvalidInput(
            "the backbone's vocabulary holds no whole words",
            fix="use a backbone whose tokenizer marks word starts: WordPiece, byte-level BPE or "
            "SentencePiece",
            subject="backbone",
        )
    attached = {word for word, flag in zip(table.words, table.clitics, strict=True) if flag}
    clitics = sorted(word for word in attached if normal(word) == word)
    pieces = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in clitics]
    words = (*(word for word, _ in kept), *clitics)
    clitic = np.arange(len(words)) >= len(kept)
    return Vocabulary(
        words=words,
        tokens=(*((token,) for _, token in kept), *map(tuple, pieces)),
        clitic=clitic,
        counts=counts_by_tag(words, clitic, table),
    )


def normal_form(tokenizer: Any) -> Callable[[str], str]:
    """The form under which the device looks a word up: the tokenizer's own normaliser."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    if normalizer is None:
        return str.strip
    # Some SentencePiece models put their word-start mark in the normaliser.
    return lambda word: normalizer.normalize_str(word).replace("▁", " ").strip()


def whole_words(
    tokenizer: Any, normal: Callable[[str], str], clitics: Sequence[str] = ()
) -> Iterator[tuple[str, int]]:
    """Words that are one token, with that token, in order of token ids.

    Only forms that the device would cut as one word (neither punctuation nor identifier) and look
    up as they stand; the first token wins where two look the same.
    """
    starts = _word_start(tokenizer)
    special = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
    done: set[str] = set()
    for token, number in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        if token in special or not starts(token):
            continue
        word = str(tokenizer.convert_tokens_to_string([token])).strip()
        if word and word not in done and normal(word) == word and _is_one_word(word, clitics):
            done.add(word)
            yield word, number


def _word_start(tokenizer: Any) -> Callable[[str], bool]:
    """Whether a token begins a word, by the convention of the tokenizer's model."""
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    if model["type"] == "WordPiece":
        prefix = model["continuing_subword_prefix"]
        return lambda token: not token.startswith(prefix)
    vocabulary = tokenizer.get_vocab()
    marker = max(_MARKERS, key=lambda mark: sum(token.startswith(mark) for token in vocabulary))
    return lambda token: token.startswith(marker)


def _is_one_word(word: str, clitics: Sequence[str]) -> bool:
    cut = split(word, clitics)
    return len(cut) == 1 and cut[0].kind is Kind.WORD and not cut[0].clitic and cut[0].text == word


def _belongs(word: str) -> bool:
    """Latin words, ASCII characters and currency signs; the rest must have been seen."""
    if len(word) == 1:
        return word.isascii() or unicodedata.category(word) == "Sc"
    return all(
        unicodedata.name(character, "").startswith("LATIN ") or not character.isalpha()
        for character in word
    )
