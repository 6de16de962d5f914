"""Measures the finder that reads the sentence, on text that it never learned from."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.text.context_finder import BREAK, NAMED, ContextFinder
from sottovoce.core.text.words import Kind, split
from sottovoce.models.corpus import load_language
from sottovoce.models.names_data import SMALL_WORDS, Marked, read_entities, read_uner, read_wnut

__all__ = ["THRESHOLDS", "Document", "Row", "documents", "evaluate"]

THRESHOLDS: Final = (0.5, 0.35, 0.2, 0.1, 0.05)
_DRAWN: Final = [NAMED.index(kind) for kind in ("PERSON", "PLACE", "ORGANISATION")]
_CLITICS: Final = load_language("en").clitics
_KINDS: Final = {
    "PER": "PERSON",
    "ORG": "ORGANISATION",
    "LOC": "PLACE",
    "LOCATION": "PLACE",
    "ORGANIZATION": "ORGANISATION",
}


@dataclass(frozen=True)
class Document:
    """The words of a text, with its marked spans."""

    words: tuple[str, ...]
    counted: tuple[bool, ...]
    """Whether a word has letters and is no identifier, so that a finder answers for it."""
    spans: tuple[tuple[int, int, str], ...]
    """First word, end and kind of each."""


@dataclass(frozen=True)
class Row:
    """A finder's errors at one threshold, in one set: missed names, and words taken for names."""

    corpus: str
    threshold: float
    missed: dict[str, tuple[int, int, int, int]]
    """For each kind: spans, spans missed as a whole, words, words missed."""
    unmarked: int
    taken: int
    """Words outside every span, and how many of these words are taken for a name of any kind."""

    def told(self) -> dict[str, Any]:
        """Return the same as JSON can hold it."""
        return asdict(self)


def documents(data: Path) -> Iterator[tuple[str, list[Document]]]:
    """Yield the judging sets that are in `data`, by name."""
    yield "pii", list(_texts(data / "pii" / "dev.jsonl.gz"))
    uner = read_uner(data / "uner_ewt" / "test.jsonl.gz", data / "ud_ewt" / "test.conllu.gz")
    yield "uner_ewt test", list(map(_of_marked, uner))
    yield (
        "btc dev",
        list(map(_of_marked, read_entities(data / "btc" / "dev.jsonl.gz", others=True))),
    )
    yield "wnut17 dev", list(map(_of_marked, read_wnut(data / "wnut17" / "dev.jsonl.gz")))
    yield "prompts marked", list(_texts(data / "prompts" / "marked.jsonl.gz"))
    for name in ("vicuna", "arena_hard_v2"):
        yield f"prompts {name}", list(_turns(data / "prompts" / f"{name}.jsonl.gz"))


def evaluate(
    finder: ContextFinder,
    sets: Iterable[tuple[str, Sequence[Document]]],
    thresholds: Sequence[float] = THRESHOLDS,
    listed: frozenset[str] | None = None,
) -> Iterator[Row]:
    """Yield figures for each set and threshold.

    Args:
        finder: what is measured.
        sets: see `documents`.
        thresholds: of the sum of the probabilities of persons, places and organisations.
        listed: a public vocabulary in small letters. A word outside it counts as hidden too.
    """
    for name, texts in sets:
        found = [finder.find(text.words)[:, _DRAWN].sum(axis=1) for text in texts]
        for threshold in thresholds:
            yield _count(name, texts, found, threshold, listed)


def _count(
    name: str,
    texts: Sequence[Document],
    found: Sequence[NDArray[np.float32]],
    threshold: float,
    listed: frozenset[str] | None,
) -> Row:
    counts: dict[str, Counter[str]] = {}
    unmarked = taken = 0
    for text, probability in zip(texts, found, strict=True):
        hidden = probability >= threshold
        if listed is not None:
            hidden = hidden | np.array([word.lower() not in listed for word in text.words], bool)
        outside = np.array(text.counted, bool)
        for first, end, kind in text.spans:
            count = counts.setdefault(kind, Counter())
            outside[first:end] = False
            promised = [
                at
                for at in range(first, end)
                if text.counted[at] and text.words[at].lower() not in SMALL_WORDS
            ]
            if not promised:
                continue
            count["spans"] += 1
            count["spans missed"] += not hidden[promised].any()
            count["words"] += len(promised)
            count["words missed"] += int((~hidden[promised]).sum())
        unmarked += int(outside.sum())
        taken += int((outside & hidden).sum())
    keys = ("spans", "spans missed", "words", "words missed")
    missed = {kind: (*(count[key] for key in keys),) for kind, count in sorted(counts.items())}
    return Row(name, threshold, missed, unmarked, taken)  # type: ignore[arg-type]


def _of_marked(sentence: Marked) -> Document:
    words = tuple(word.text for word in sentence.words)
    counted = tuple(
        word.kind is Kind.WORD and not word.clitic and any(map(str.isalpha, word.text))
        for word in sentence.words
    )
    return Document(words, counted, sentence.spans)


def _texts(path: Path) -> Iterator[Document]:
    for entry in _lines(path):
        spans = [
            (span["start"], span["end"], span["kind"]) if isinstance(span, dict) else tuple(span)
            for span in entry["spans"]
        ]
        yield _cut(entry["text"], spans)


def _turns(path: Path) -> Iterator[Document]:
    for entry in _lines(path):
        for turn in entry["turns"]:
            yield _cut(turn if isinstance(turn, str) else turn["content"], [])


def _cut(text: str, spans: Sequence[tuple[int, int, str]]) -> Document:
    words: list[str] = []
    counted: list[bool] = []
    starts: list[int] = []
    done = 0
    for word in split(text, _CLITICS):
        if "\n" in text[done : word.start]:
            words.append(BREAK)
            counted.append(False)
            starts.append(done)
        done = word.end
        words.append(word.text)
        counted.append(
            word.kind is Kind.WORD and not word.clitic and any(map(str.isalpha, word.text))
        )
        starts.append(word.start)
    places = np.array(starts)
    moved = [
        (
            int(np.searchsorted(places, start)),
            int(np.searchsorted(places, end)),
            _KINDS.get(kind, kind),
        )
        for start, end, kind in spans
    ]
    return Document(tuple(words), tuple(counted), tuple(moved))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)
