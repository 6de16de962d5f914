"""Cuts text into the backbone's own tokens.

Why it is here: the tokenizers library keeps a vocabulary of 30,000 tokens as two hash maps, 7 MB in
every process; a thirteenth of what the daemon may take. For WordPiece, which is a dozen lines, the
vocabulary is read where it lies in the bundle; the library still normalises and cuts into words.
Any other kind of tokenizer is the library's affair altogether.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Protocol

import tokenizers

from sottovoce.core.bundle.word_list import WordIds, WordList
from sottovoce.core.errors import DataLoss
from sottovoce.core.system.schema import Longest, Malformed, Range, decode, parse

__all__ = ["VOCABULARY", "Tokenizer", "open_tokenizer", "without_vocabulary"]

VOCABULARY: Final = "vocabulary.txt"
"""Where a bundle has the tokens of a WordPiece tokenizer, one a line, in the order of their ids."""


class Tokenizer(Protocol):
    """A tokenizer without special tokens, padding and truncation."""

    def normalize(self, text: str) -> str:
        """``text`` as the vocabulary writes it: small letters, say, or no accents."""

    def ids(self, text: str) -> list[int]:
        """Token ids of ``text``; nothing of it is remembered."""


@dataclass(frozen=True)
class _Model:
    """What ``tokenizer.json`` says of a WordPiece model whose vocabulary lies beside it."""

    unk_token: str
    continuing_subword_prefix: Annotated[str, Longest(16)]
    max_input_chars_per_word: Annotated[int, Range(1, 1_000)]


class _WordPiece:
    """Longest match first, as in Wu et al. 2016 and BERT; pieces within a word carry a prefix."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, model: _Model, words: WordList) -> None:
        self._normalizer = tokenizer.normalizer
        self._cutter = tokenizer.pre_tokenizer
        self._known = WordIds(words)
        self._unknown = self._known[model.unk_token]
        self._prefix = model.continuing_subword_prefix
        self._longest = model.max_input_chars_per_word

    def normalize(self, text: str) -> str:
        return str(self._normalizer.normalize_str(text)) if self._normalizer else text

    def ids(self, text: str) -> list[int]:
        text = self.normalize(text)
        words = self._cutter.pre_tokenize_str(text) if self._cutter else [(text, None)]
        return [piece for word, _ in words for piece in self._pieces(word)]

    def _pieces(self, word: str) -> list[int]:
        if len(word) > self._longest:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end]
                known = self._known.get(self._prefix + piece if start else piece)
                if known is not None:
                    found.append(known)
                    start = end
                    break
            else:
                return [self._unknown]  # one unknown piece makes the whole word unknown
        return found


class _Library:
    """Whatever the tokenizers library reads."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        # Padding and truncation are saved with many tokenizers.
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if hasattr(tokenizer.model, "_resize_cache"):  # BPE and Unigram remember words
            tokenizer.model._resize_cache(0)
        self._tokenizer = tokenizer

    def normalize(self, text: str) -> str:
        normalizer = self._tokenizer.normalizer
        return str(normalizer.normalize_str(text)) if normalizer else text

    def ids(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return found


def open_tokenizer(file: Path) -> Tokenizer:
    """The tokenizer in ``file``, with its vocabulary beside it or in it.

    Raises:
        DataLoss: it cannot be read.
    """
    vocabulary = file.with_name(VOCABULARY)
    try:
        # One that has its vocabulary in it is megabytes, and only the library reads it.
        model = parse(file.read_bytes())["model"] if vocabulary.exists() else {}
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        if model.get("type") != "WordPiece":
            return _Library(tokenizer)
        told = decode(_Model, model, "model", more=True)
        return _WordPiece(tokenizer, told, WordList(vocabulary))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library panics, too
        how = f": {error}" if isinstance(error, Malformed) else ""
        raise DataLoss(
            f"bundle file tokenizer.json is unreadable{how}",
            fix="fetch it again with `sotto pull`",
            subject="tokenizer.json",
        ) from error


def without_vocabulary(saved: str) -> tuple[str, list[str] | None]:
    """A saved tokenizer as a bundle has it.

    Args:
        saved: the library's ``tokenizer.json``.

    Returns:
        What to write in its place, and the lines of `VOCABULARY`; None where the file is to be
        kept whole, because it is no WordPiece or its tokens cannot be numbered lines.
    """
    facts = json.loads(saved)
    model = facts["model"]
    vocabulary = model.get("vocab", {})
    if model.get("type") != "WordPiece" or not isinstance(vocabulary, dict):
        return saved, None
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    numbered = [vocabulary[token] for token in tokens] == list(range(len(tokens)))
    if not numbered or any("\n" in token for token in tokens):
        return saved, None
    model["vocab"] = {model["unk_token"]: vocabulary[model["unk_token"]]}
    facts["added_tokens"], facts["post_processor"] = [], None
    return json.dumps(facts, ensure_ascii=False), tokens
