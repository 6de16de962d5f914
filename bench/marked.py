"""Texts with hand-marked private spans, and one text with a tag for every word.

Data sets name the same things differently. None marks nationalities and creeds, so these are read
off treebanks: they are the adjectives that are almost always capitalised.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["FILES", "OTHER_WORDS", "TWIN", "Document", "Span", "read"]

_GROUPS: Final = {
    "identifiers": (
        *("CREDIT_CARD", "PHONE_NUMBER", "EMAIL_ADDRESS", "US_SSN", "IBAN_CODE"),
        *("DOMAIN_NAME", "US_DRIVER_LICENSE", "IP_ADDRESS"),
    ),
    "persons": ("PERSON", "PER", "person"),
    "places": ("LOCATION", "LOC", "location"),
    "organisations": ("ORGANIZATION", "ORG", "corporation", "group"),
    "nationalities": ("NATIONALITY",),
    "addresses": ("ADDRESS",),
    "dates": ("DATE_TIME",),
    "other names": ("product", "creative-work", "TITLE", "PREFIX"),
}
"""The data sets' kinds of entities, by our group."""

OTHER_WORDS: Final = "other words"
"""The corpus that marks, word by word, everything except names and numbers."""

TWIN: Final = "synthetic"
"""The substitute for `pii` that `make data` generates."""

_GROUP: Final = {kind: group for group, kinds in _GROUPS.items() for kind in kinds}
_NAMING: Final = {"PROPN", "NUM", "PUNCT", "SYM", "X"}
_MOSTLY_SMALL: Final = 0.6
_SHORT: Final = 3
"""Letters of words like "New" and "Old"."""
_HARDLY: Final = 5
"""A capitalised form must be this many times as frequent as the lower-case form."""
_NO_ORIGIN: Final = frozenset(
    """
    Adriatic Agrarian Angelic Antarctic Arctic Atlantic Baltic Biblical Botanical Childish Cinematic
    Communist Confidential Congressional Criminal Diagnostic Foolhardy Forbidden Holy Hybrid
    Imperial Indie Invisible Libertarian Medicinal Nationalist Naval Olympic Pacific Paralympic
    Pro-Beijing Reactive Republican Revolutionary Stuart Surrealist Ultraviolet United Yucatán
    """.split()  # noqa: SIM905 - a page of quotes otherwise
)


class Span(NamedTuple):
    """``text[start:end]``, in code points, is marked as a group of names, or as `OTHER_WORDS`."""

    start: int
    end: int
    group: str


@dataclass(frozen=True, slots=True)
class Document:
    """One line of text, with its marked spans; white space may repeat."""

    text: str
    spans: tuple[Span, ...]


class _Token(NamedTuple):
    form: str
    tag: str
    naming: bool


def _token(row: Sequence[str]) -> _Token:
    """Read a line of CoNLL-U; "United" in a name is tagged ADJ there, with NNP as its own tag."""
    form, tag, own_tag, features = row[1], row[3], row[4], row[5]
    naming = tag in _NAMING or own_tag.startswith("NNP") or "NumType=Ord" in features
    return _Token(form, tag, naming)


def _spans(path: str) -> Callable[[Path], Iterator[Document]]:
    def documents(data: Path) -> Iterator[Document]:
        for row in _json_lines(data / path):
            spans = (_span(row["text"], span) for span in row["spans"])
            yield Document(_one_line(row["text"]), tuple(span for span in spans if span))

    return documents


def _span(text: str, span: dict[str, int | str]) -> Span | None:
    start, end = int(span["start"]), int(span["end"])
    if str(span["kind"]) not in _GROUP or not text[start:end].strip():
        return None
    return Span(start, end, _GROUP[str(span["kind"])])


def _one_line(text: str) -> str:
    """Put text on one line of the same length, because `sotto privatize` reads a text a line."""
    return "".join(" " if each in "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029" else each for each in text)


def _entities(path: str) -> Callable[[Path], Iterator[Document]]:
    def documents(data: Path) -> Iterator[Document]:
        for row in _json_lines(data / path):
            if row["tokens"]:
                yield _joined(row["tokens"], _groups(row["ner_tags"]))

    return documents


def _groups(labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """Yield the first token of each entity and the token after its last, from labels in IOB2."""
    found: list[tuple[int, int, str]] = []
    for place, label in enumerate(labels):
        kind = label[2:]
        if label.startswith("I-") and found and found[-1][1:] == (place, _GROUP.get(kind, kind)):
            found[-1] = (found[-1][0], place + 1, found[-1][2])
        elif label != "O":
            found.append((place, place + 1, _GROUP.get(kind, kind)))
    return [each for each in found if each[2] in _GROUPS]


def _joined(tokens: Sequence[str], marked: Iterable[tuple[int, int, str]]) -> Document:
    starts, ends, end = [], [], 0
    for token in tokens:
        starts.append(end)
        ends.append(end + len(token))
        end = ends[-1] + 1
    spans = tuple(Span(starts[first], ends[last - 1], group) for first, last, group in marked)
    return Document(_one_line(" ".join(tokens)), spans)


def _nationalities(data: Path) -> Iterator[Document]:
    """Return sentences with a word of `_origins`, and their lower-case copies."""
    sentences = [sentence for path in _TREEBANKS for sentence in _treebank(data / path)]
    origins = _origins(sentences)
    for sentence in sentences:
        forms = [token.form for token in sentence]
        marked = [
            (place, place + 1, "nationalities")
            for place, token in enumerate(sentence)
            if token.form in origins and token.tag in ("ADJ", "NOUN", "PROPN")
        ]
        if marked:
            yield _joined(forms, marked)
            yield _joined([form.lower() for form in forms], marked)


def _origins(sentences: Sequence[Sequence[_Token]]) -> set[str]:
    """Return adjectives that are almost always capitalised, and nouns made from them ("Americans").

    Most of these name an origin or a creed. `_NO_ORIGIN` lists the others.
    """
    met = Counter(token.form for sentence in sentences for token in sentence)
    found = {
        token.form
        for sentence in filter(_in_sentence_case, sentences)
        for token in sentence[1:]
        if token.tag == "ADJ" and token.form.istitle() and len(token.form) > _SHORT
    }
    found = {form for form in found if met[form.lower()] * _HARDLY <= met[form]}
    found -= _NO_ORIGIN
    return found | {f"{form}s" for form in found}


def _in_sentence_case(sentence: Sequence[_Token]) -> bool:
    """Return whether capitals carry meaning; in a heading they do not."""
    words = [token.form for token in sentence if token.form[0].isalpha()]
    return sum(form[0].islower() for form in words) > _MOSTLY_SMALL * len(words)


def _other_words(data: Path) -> Iterator[Document]:
    """Mark all words of a treebank that are tagged neither as names nor as numbers or signs."""
    sentences = [sentence for path in _TREEBANKS for sentence in _treebank(data / path)]
    origins = _origins(sentences)
    for sentence in _treebank(data / _GUM_DEV):
        marked = [
            (place, place + 1, OTHER_WORDS)
            for place, token in enumerate(sentence)
            if not token.naming and token.form not in origins and token.form.isalpha()
        ]
        yield _joined([token.form for token in sentence], marked)


def _treebank(file: Path) -> Iterator[list[_Token]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for filled, block in groupby(lines, lambda line: bool(line.strip())):
            rows = [line.split("\t") for line in block if line[:1].isdigit()]
            tokens = [_token(row) for row in rows if row[0].isdigit()]
            if filled and tokens:
                yield tokens


def _json_lines(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


_PII: Final = "pii/dev.jsonl.gz"
_TWIN: Final = f"{TWIN}/dev.jsonl.gz"
_UNER: Final = "uner_ewt/test.jsonl.gz"
_WNUT: Final = "wnut17/dev.jsonl.gz"
_BTC: Final = "btc/dev.jsonl.gz"
_GUM_DEV: Final = "ud_gum/dev.conllu.gz"
_TREEBANKS: Final = ("ud_gum/train.conllu.gz", _GUM_DEV, "ud_ewt/test.conllu.gz")


class _Set(NamedTuple):
    read: Callable[[Path], Iterator[Document]]
    files: tuple[str, ...]


_SETS: Final = {
    "pii": _Set(_spans(_PII), (_PII,)),
    "uner_ewt": _Set(_entities(_UNER), (_UNER,)),
    "wnut17": _Set(_entities(_WNUT), (_WNUT,)),
    "btc": _Set(_entities(_BTC), (_BTC,)),
    "nationalities": _Set(_nationalities, _TREEBANKS),
    OTHER_WORDS: _Set(_other_words, _TREEBANKS),
    TWIN: _Set(_spans(_TWIN), (_TWIN,)),
}

FILES: Final = {name: each.files for name, each in _SETS.items()}
"""The files in the data folder that each set needs. No judged part may have served for training."""


def read(name: str, data: Path, every: int = 1) -> list[Document]:
    """Return every ``every``-th document of a set of `FILES`."""
    return [*_SETS[name].read(data)][::every]
