"""Tags the part of speech of every word, on the device.

PCT2T (RAPT, section on the privatisation by constituents) uses the part of speech twice: to choose
the words to replace, and to choose their possible replacements. The default tagger is a small
convolutional network over hashed features of the word's form. It needs onnxruntime and numpy, a
megabyte of disk and no vocabulary. A word's tag depends only on the four words either side. The
tagger also returns its confidence, so that a word with an unsure tag can be protected.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady, Remedy
from sottovoce.core.platform.schema import Longest, Malformed, Range, Sha256, decode, parse_object
from sottovoce.core.text.onnx_models import session

UPOS: Final = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
"""The seventeen universal parts of speech, in the order all files and arrays use."""

FORMAT: Final = "tagger.v1"
WINDOW: Final = 64
"""Words in one run of the network, whatever the document's length.

A run takes a megabyte (2,000 words would take 28), and is hardly slower.
"""

_LONGEST: Final = 64
_DIGIT = re.compile(r"\d")
_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)


@dataclass(frozen=True)
class Tags:
    """Parts of speech of `n_words` words, with their confidence."""

    ids: NDArray[np.uint8]
    """(n_words,) positions in the tag set."""
    confidence: NDArray[np.float32]
    """(n_words,) probability of that tag, 0 to 1."""


class Tagger(Protocol):
    """Any tagger of given words; it must not cut or join them."""

    @property
    def tagset(self) -> tuple[str, ...]:
        """Names of the tags, in the order of `Tags.ids`."""

    @property
    def reach(self) -> int:
        """How many words either side the tag of a word may depend on."""

    def tag(self, words: Sequence[str]) -> Tags:
        """Return one tag for each of `words`, which are consecutive words of one document."""


def form_features(word: str) -> tuple[str, ...]:
    """Return the features of a word, in the order of `FEATURES`.

    All but its shape follow from the word in small letters.
    """
    if word.isascii() and word.isalpha() and len(word) <= _LONGEST:
        norm = word.lower()  # most words; the same as below, four times faster
    else:
        half = _LONGEST // 2
        if len(word) > _LONGEST:  # the features lie at both ends
            word = word[:half] + word[-half:]
        norm = _DIGIT.sub("0", word.lower()).replace("’", "'")
    return norm, shape(word), norm[:1], norm[:3], norm[-1:], norm[-2:], norm[-3:], norm[-4:]


def shape(word: str) -> str:
    """Return the pattern of capitals, small letters, digits and signs, with long runs cut short.

    >>> shape("Washington"), shape("McDonald"), shape("o'clock")
    ('Xxxx', 'XxXxxx', "x'xxx")
    """
    if word.isascii() and word.isalpha():
        if word.islower():
            return "xxx"[: len(word)]
        if len(word) == 1 or word[1:].islower():
            return "X" + "xxx"[: len(word) - 1]
    return _RUN.sub(r"\1\1\1", "".join(map(_outline, word)))


def _outline(character: str) -> str:
    if character.isupper():
        return "X"
    if character.isalpha():
        return "x"
    return "0" if character.isdigit() else character


FEATURES: Final = (
    *("norm", "shape", "prefix1", "prefix3"),
    *("suffix1", "suffix2", "suffix3", "suffix4"),
)
HASHES: Final = 2
"""Rows of the table that each feature sums: two words rarely share both."""


Rows = Annotated[
    tuple[Annotated[int, Range(1, 1 << 24)], ...], Longest(len(FEATURES), len(FEATURES))
]
"""Rows that each of `FEATURES` has in the table."""


@dataclass(frozen=True)
class FeatureSpec:
    """The map from features to rows of one embedding table; written into `tagger.json`."""

    rows: tuple[int, ...]
    """Rows that each feature has for itself."""
    seed: int
    """Seed of the hashes."""
    features: Callable[[str], tuple[str, ...]] = form_features
    """Returns the features of a word."""

    def rows_of(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Return rows of the embedding table for each word: (n_words, features * HASHES)."""
        hashers = self._hashers
        # Remembered for this call only: nothing may keep a user's words. Most words of a text have
        # occurred before, and most endings of the others.
        known: dict[str, int] = {}
        parts: list[dict[str, bytes]] = [{} for _ in hashers]
        digests: list[bytes] = []
        for word in words:
            if word in known:
                continue
            known[word] = len(known)
            for feature, part, hasher in zip(self.features(word), parts, hashers, strict=True):
                digest = part.get(feature)
                if digest is None:
                    digest = part[feature] = hasher(feature)
                digests.append(digest)
        distinct = self._rows(digests, slice(None)).reshape(len(known), len(self.rows) * HASHES)
        return distinct[[known[word] for word in words]]

    def rows_of_feature(self, index: int, values: Sequence[str]) -> NDArray[np.int32]:
        """Return the rows for one feature alone, from its ``values``: (n, HASHES)."""
        digests = [*map(self._hashers[index], values)]
        return self._rows(digests, slice(index, index + 1)).reshape(-1, HASHES)

    def _rows(self, digests: Sequence[bytes], features: slice) -> NDArray[np.int32]:
        """Return the rows for digests of each word's ``features``: (n, features, HASHES)."""
        sizes, offsets = self._sizes[features], self._offsets[features]
        numbers = np.frombuffer(b"".join(digests), "<u4").reshape(-1, len(sizes), HASHES)
        return (numbers % sizes + offsets).astype(np.int32)

    @cached_property
    def _sizes(self) -> NDArray[np.uint32]:
        return np.array(self.rows, np.uint32)[:, None]

    @cached_property
    def _offsets(self) -> NDArray[np.uint32]:
        return self._sizes.cumsum(axis=0, dtype=np.uint32) - self._sizes

    @cached_property
    def _hashers(self) -> list[Callable[[str], bytes]]:
        """The hash of each feature."""
        salt = self.seed.to_bytes(8, "little")

        def hasher(index: int) -> Callable[[str], bytes]:
            empty = hashlib.blake2b(digest_size=4 * HASHES, salt=salt, person=bytes([index]))

            def of(feature: str) -> bytes:
                filled = empty.copy()
                filled.update(feature.encode("utf-8", "surrogatepass"))
                return filled.digest()

            return of

        return [hasher(index) for index in range(len(self.rows))]


@dataclass(frozen=True)
class _Description:
    """The content of `tagger.json`; the annotations are its schema."""

    features: tuple[str, ...]
    hashes: int
    tagset: tuple[str, ...]
    rows: Rows
    seed: Annotated[int, Range(0, (1 << 64) - 1)]
    reach: Annotated[int, Range(0, WINDOW)]
    temperature: Annotated[float, Range(1e-3, 1e3)]
    sha256: Sha256


class OnnxTagger:
    """The default tagger: `tagger.onnx` and its description `tagger.json` from one folder."""

    def __init__(
        self, session: Any, tagset: tuple[str, ...], spec: FeatureSpec, reach: int, heat: float
    ) -> None:
        self.tagset = tagset
        self._session = session
        self._spec = spec
        self.reach = reach
        self._heat = heat

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> Self:
        """Open the tagger in `folder`, on `threads` processor cores.

        Raises:
            NotReady: the folder holds no tagger.
            BundleMismatch: the tagger is of a format this version does not read.
            DataLoss: the two files do not belong together.
        """
        description, network = folder / "tagger.json", folder / "tagger.onnx"
        if not description.is_file() or not network.is_file():
            raise NotReady(
                f"no tagger in {folder}",
                fix=Remedy.GET_TAGGER,
                subject="tagger",
            )
        model = network.read_bytes()
        try:
            form, raw = parse_object(description.read_bytes())
            if form != FORMAT:
                raise _another(folder)
            told = decode(_Description, raw, more=True)
        except Malformed as error:
            raise _damaged(f"{description.name}: {error}") from None
        if (told.features, told.hashes, told.tagset) != (FEATURES, HASHES, UPOS):
            raise _another(folder)
        if hashlib.sha256(model).hexdigest() != told.sha256:
            raise _damaged(f"the SHA-256 of {network.name} is not the one in {description.name}")
        spec = FeatureSpec(told.rows, told.seed)
        opened = session(model, threads, name=network.name)
        return cls(opened, told.tagset, spec, told.reach, told.temperature)

    def tag(self, words: Sequence[str]) -> Tags:
        """Tag consecutive words of one document; see `Tagger.tag`.

        Long documents go through in windows that overlap by the reach of the network, so that the
        tags equal the tags of one single run.
        """
        ids = np.empty(len(words), np.uint8)
        confidence = np.empty(len(words), np.float32)
        rows = self._spec.rows_of(words)
        for start, end, seen_from, seen_to in _windows(len(words), self.reach):
            logits = self._logits(rows[seen_from:seen_to])
            scores = logits[start - seen_from : end - seen_from] / self._heat
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            best = scores.argmax(axis=1)
            ids[start:end] = best
            confidence[start:end] = 1 / scores.sum(axis=1)  # the best one's score is exp(0)
        return Tags(ids, confidence)

    def _logits(self, rows: NDArray[np.int32]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._session.run(None, {"rows": rows})[0]
        # NaN would pass for a tag that is beyond doubt.
        if found.shape != (len(rows), len(self.tagset)) or not np.isfinite(found).all():
            raise _damaged("it does not give a number for each tag of each word")
        return found


def _another(folder: Path) -> BundleMismatch:
    return BundleMismatch(
        f"the tagger in {folder} is not one this version can run",
        fix=Remedy.MATCH_VERSIONS,
        subject="tagger",
    )


def _damaged(problem: str) -> DataLoss:
    return DataLoss(
        f"the tagger is damaged: {problem}", fix=Remedy.RESTORE_BUNDLE, subject="tagger"
    )


def _windows(n_words: int, reach: int) -> Iterator[tuple[int, int, int, int]]:
    for start in range(0, n_words, WINDOW):
        end = min(start + WINDOW, n_words)
        yield start, end, max(0, start - reach), min(n_words, end + reach)


_TAG_ID: Final = {tag: position for position, tag in enumerate(UPOS)}
_UNKNOWN: Final = _TAG_ID["X"]
_PART: Final = 2_000
"""Words tagged at once."""
_NOT_NEEDED: Final = ("parser", "ner", "lemmatizer", "textcat", "senter")


class SpacyTagger:
    """A `Tagger` over an installed spaCy pipeline, or one in a folder.

    spaCy returns no probability. A word that it tags counts as certain. A word that it leaves
    untagged counts as unknown (X, confidence 0), which the default settings protect. Words are
    forgotten after each call.
    """

    tagset: tuple[str, ...] = UPOS
    reach = 16
    """The reach of the networks in spaCy's own pipelines, and some more."""

    def __init__(self, pipeline_name: str) -> None:
        """Load the pipeline named, or in the folder named, `pipeline_name`.

        Raises:
            NotReady: spaCy or the pipeline is not installed.
        """
        try:
            import spacy
        except ImportError as error:
            raise NotReady(
                "the tagger is set to spaCy, which is not installed",
                fix="run `pip install 'sottovoce-edge[spacy]'`",
                subject="tagger",
            ) from error
        try:
            self._pipeline = spacy.load(pipeline_name, exclude=_NOT_NEEDED)
        except OSError as error:
            raise NotReady(
                f"spaCy has no pipeline {pipeline_name!r}",
                fix=f"run `python -m spacy download {pipeline_name}`, or name an installed one",
                subject="tagger",
            ) from error
        self.language: str = self._pipeline.lang
        """BCP 47 code of the language it tags."""

    def tag(self, words: Sequence[str]) -> Tags:
        """Tag words, see `Tagger.tag`; documents longer than 2,000 words are tagged in parts."""
        from spacy.tokens import Doc

        names: list[str] = []
        for start in range(0, len(words), _PART):
            # Outside a memory zone the vocabulary would keep every word it ever met.
            with self._pipeline.memory_zone():
                part = Doc(self._pipeline.vocab, words=list(words[start : start + _PART]))
                names += [token.pos_ for token in self._pipeline(part)]
        ids = np.array([_TAG_ID.get(name, _UNKNOWN) for name in names], np.uint8)
        known = np.array([name in _TAG_ID for name in names], np.float32)
        return Tags(ids, known)
