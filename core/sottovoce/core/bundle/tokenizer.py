"""Cuts text into the backbone's own tokens.

The tokenizers library keeps a vocabulary of 30,000 tokens as two hash maps, 7 MB in every process.
For WordPiece the vocabulary is therefore read where it lies in the bundle. The library normalises
and cuts into words, and does everything for other kinds of tokenizers.

A provider's file states the normalizer, and the device looks words up by their normal form. So only
normalizers and pre-tokenizers from a fixed set are run: none can turn one word into another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import tokenizers

from sottovoce.core.bundle.word_list import WordIds, WordList
from sottovoce.core.errors import BundleMismatch, DataLoss, Remedy
from sottovoce.core.platform.schema import Longest, Malformed, Range, decode, parse

VOCABULARY: Final = "vocabulary.txt"
"""The file of a WordPiece tokenizer's tokens in a bundle, one a line, in the order of their ids."""

_MARK: Final = "\u2581"
"""SentencePiece's mark for the space before a word."""

_NORMALIZERS: Final = frozenset(
    (
        *("BertNormalizer", "Lowercase", "Nmt", "Strip", "StripAccents"),
        *("NFC", "NFD", "NFKC", "NFKD"),
    )
)
"""Normalizers that may have any settings."""
_EXACT_NORMALIZERS: Final = (
    {"type": "Prepend", "prepend": _MARK},
    {"type": "Replace", "pattern": {"String": " "}, "content": _MARK},
    {"type": "Replace", "pattern": {"String": "``"}, "content": '"'},
    {"type": "Replace", "pattern": {"String": "''"}, "content": '"'},
    *(
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": space}
        for space in (" ", _MARK)
    ),
)
"""Normalizers allowed with exactly these settings, from SentencePiece, ALBERT and XLM-R."""

_PRE_TOKENIZERS: Final = frozenset(
    (
        *("BertPreTokenizer", "ByteLevel", "Digits", "Punctuation"),
        *("Whitespace", "WhitespaceSplit"),
    )
)
_REGEXES: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",  # Llama 3
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",  # Qwen 2
)
_SPLITS: Final = (
    {"String": " "},  # Gemma
    *({"Regex": regex} for regex in _REGEXES),
)
_KEEPING: Final = ("Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
"""Behaviours of a split under which no character is lost."""


class Tokenizer(Protocol):
    """A tokenizer without special tokens, padding and truncation."""

    def normalize(self, text: str) -> str:
        """Return ``text`` in the vocabulary's form: small letters, say, or no accents."""

    def ids(self, text: str) -> list[int]:
        """Return the token ids of ``text``; the tokenizer remembers no text."""


@dataclass(frozen=True)
class _Model:
    """The fields of ``tokenizer.json`` for a WordPiece model with its vocabulary beside it."""

    unk_token: str
    continuing_subword_prefix: Annotated[str, Longest(16)]
    max_input_chars_per_word: Annotated[int, Range(1, 1_000)]


class _WordPiece:
    """Longest match first, as in Wu et al. 2016 and BERT; pieces within a word carry a prefix."""

    def __init__(self, normalizer: Any, cutter: Any, model: _Model, words: WordList) -> None:
        self._normalizer = normalizer
        self._cutter = cutter
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
    """A tokenizer that the tokenizers library reads."""

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
    """Open the tokenizer in ``file``, with its vocabulary beside it or in it.

    Raises:
        DataLoss: the file cannot be read.
        BundleMismatch: the tokenizer could rewrite words: it has a part outside the fixed set.
    """
    vocabulary = file.with_name(VOCABULARY)
    try:
        # One that has its vocabulary in it is megabytes, and only the library reads it.
        model = parse(file.read_bytes())["model"] if vocabulary.exists() else {}
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        _check(tokenizer)
        # One that has its vocabulary in it is megabytes, and only the library reads it.
        model = parse(file.read_bytes())["model"] if vocabulary.exists() else {}
        if model.get("type") != "WordPiece":
            return _Library(tokenizer)
        told = decode(_Model, model, "model", more=True)
        return _WordPiece(tokenizer.normalizer, tokenizer.pre_tokenizer, told, WordList(vocabulary))
    except BundleMismatch:
        raise
    except BaseException as error:  # the library raises nothing narrower, and also panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        how = f": {error}" if isinstance(error, Malformed) else ""
        raise DataLoss(
            f"bundle file tokenizer.json is unreadable{how}",
            fix=Remedy.RESTORE_BUNDLE,
            subject="tokenizer.json",
        ) from error


def bert_tokenizer(vocabulary: Path) -> Tokenizer:
    """Return the tokenizer of BERT in small letters over the vocabulary in a file.

    Raises:
        OSError, ValueError, KeyError: it cannot be read, or is no such vocabulary.
    """
    return _WordPiece(
        tokenizers.normalizers.BertNormalizer(lowercase=True),
        tokenizers.pre_tokenizers.BertPreTokenizer(),
        _Model("[UNK]", "##", 100),
        WordList(vocabulary),
    )


def _check(tokenizer: tokenizers.Tokenizer) -> None:
    """Raise BundleMismatch if a part of the tokenizer could turn one word into another.

    A ``Precompiled`` table may hold any rule, so it is replaced by NFKC, which it stands for.
    """
    if tokenizer.normalizer is not None:
        known = _known_normalizer(_state(tokenizer.normalizer))
        if known != _state(tokenizer.normalizer):
            tokenizer.normalizer = _made(known)
    if tokenizer.pre_tokenizer is not None:
        _check_pre_tokenizer(_state(tokenizer.pre_tokenizer))
    for added in tokenizer.get_added_tokens_decoder().values():
        ends = added.content[:1] + added.content[-1:]
        if any(map(str.isalnum, added.content)) and any(
            end.isalnum() or end.isspace() or end == _MARK for end in ends
        ):
            raise _refused(f"adds the token {added.content[:60]!r}, which is a word")


def _known_normalizer(state: dict[str, Any]) -> dict[str, Any]:
    """Return the normalizer that ``state`` describes."""
    kind = state["type"]
    if kind == "Sequence":
        return {**state, "normalizers": [_known_normalizer(each) for each in state["normalizers"]]}
    if kind == "Precompiled":
        return {"type": "NFKC"}
    if kind not in _NORMALIZERS and state not in _EXACT_NORMALIZERS:
        raise _refused(f"rewrites words with a normalizer {_told(state)}")
    return state


def _check_pre_tokenizer(state: dict[str, Any]) -> None:
    kind = state["type"]
    if kind == "Sequence":
        for each in state["pretokenizers"]:
            _check_pre_tokenizer(each)
        return
    known = kind in _PRE_TOKENIZERS
    if kind == "Metaspace":
        known = state["replacement"] == _MARK
    elif kind == "Split":
        known = state["pattern"] in _SPLITS and state["behavior"] in _KEEPING
    if not known:
        raise _refused(f"cuts words with a pre-tokenizer {_told(state)}")


def _state(part: Any) -> dict[str, Any]:
    """Return the description of a part, as in ``tokenizer.json``."""
    found: dict[str, Any] = json.loads(part.__getstate__())
    return found


def _made(normalizer: dict[str, Any]) -> Any:
    """Return the normalizer that ``normalizer`` describes."""
    parts = {"version": "1.0", "added_tokens": [], "normalizer": normalizer}
    model = {
        "type": "WordPiece",
        "unk_token": "",
        "continuing_subword_prefix": "",
        "max_input_chars_per_word": 1,
        "vocab": {},
    }
    return tokenizers.Tokenizer.from_str(json.dumps({**parts, "model": model})).normalizer


def _told(state: dict[str, Any]) -> str:
    return json.dumps(state, ensure_ascii=False)[:200]


def _refused(what: str) -> BundleMismatch:
    return BundleMismatch(
        f"the bundle cannot be trusted: its tokenizer.json {what}, and this device knows no such",
        fix="ask the provider, or pull from another cloud",
        subject="tokenizer.json",
    )


def without_vocabulary(saved: str) -> tuple[str, list[str] | None]:
    """Convert a saved tokenizer to its form in a bundle.

    Returns:
        The text to write in its place, and the lines of `VOCABULARY`; None where the file must be
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
