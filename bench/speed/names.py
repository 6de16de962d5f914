"""What does the name finder that ships find, what does it take for names, how fast is it?

Words inside the names that people marked in three public sets, and words of UD English GUM that are
no names, of none of which the finder has learned: how many are replaced for what the list says of
them (see `ALWAYS_DRAWN`), and how many by the finder besides. A small word within a name, such as
the "of" of "Bank of America", may stay. Then words a second of one thread, by processor time,
hashing included. Needs the data sets (see `--data`).

    python -m bench.names
"""

from __future__ import annotations

import gzip
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench import console
from bench.console import Figures, share, table
from bench.data import require
from sottovoce.cloud.corpus.treebanks import TAG_ID, read_conllu
from sottovoce.cloud.tagger.names_training import ALWAYS_DRAWN
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.looks import looks
from sottovoce.core.text.names import NameFinder
from sottovoce.core.text.readings import READINGS, UNLISTED, look_up
from sottovoce.core.text.words import Kind, Word, split

MARKED: Final = {
    "pii": ("pii/dev.jsonl.gz", ("PERSON", "LOCATION", "ADDRESS", "ORGANIZATION")),
    "UNER EWT, test": ("uner_ewt/test.jsonl.gz", ("PER", "LOC", "ORG")),
    "WNUT 17, dev": ("wnut17/dev.jsonl.gz", ("person", "location", "corporation", "group")),
}
"""Files, and the kinds that the promise is about."""
TREEBANK: Final = "ud_gum/dev.conllu.gz"

_NO_NAMES: Final = frozenset({"PROPN", "NUM", "X", "PUNCT", "SYM"})
_SMALL: Final = frozenset({"REFERENCE", "GRAMMAR", "CLITIC"})
_READINGS: Final = (*READINGS, UNLISTED)
_WORDS: Final = 20_000
_ROUNDS: Final = 7

Span = tuple[int, int, str]
"""Where a name begins and ends in its text, and its kind."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What becomes of the words of a text."""

    words: list[Word]
    readings: NDArray[np.uint8]
    listed: NDArray[np.bool_]
    """(n_words,) whether the word is replaced for its form or its reading."""
    found: NDArray[np.bool_]
    """(n_words,) whether the finder calls it a name."""

    def content(self, start: int, end: int) -> list[int]:
        """Places of the words between two characters, without marks and small words."""
        return [
            place
            for place, word in enumerate(self.words)
            if word.start < end and word.end > start and not self._passes(place)
        ]

    def _passes(self, place: int) -> bool:
        word = self.words[place]
        small = _READINGS[self.readings[place]] in _SMALL and word.text.islower()
        return word.kind is Kind.PUNCTUATION or (word.kind is Kind.WORD and small)


class Judge:
    """Cuts and judges texts as the device does."""

    def __init__(self, bundle: Bundle, finder: NameFinder) -> None:
        self._clitics = bundle.manifest.clitics
        self._readings = bundle.readings
        self._vectors = Vectors(bundle)
        self._finder = finder
        self._drawn = np.array([reading in ALWAYS_DRAWN for reading in _READINGS])

    def __call__(self, text: str) -> Judged:
        """What becomes of the words of `text`."""
        words = split(text, self._clitics)
        texts = [word.text for word in words]
        readings = look_up(self._readings, self._vectors.lookup(texts)[1])
        found = self._finder.find(texts, looks(words, readings))
        free = np.array([word.kind is Kind.WORD for word in words], np.bool_)
        identifier = np.array([word.kind is Kind.IDENTIFIER for word in words], np.bool_)
        return Judged(words, readings, (self._drawn[readings] & free) | identifier, found.kinds > 0)


def marked(path: Path) -> Iterator[tuple[str, list[Span]]]:
    """Texts and their spans; texts that come in words are put together with spaces."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for entry in map(json.loads, file):
            if "text" in entry:
                yield entry["text"], [(s["start"], s["end"], s["kind"]) for s in entry["spans"]]
            else:
                yield " ".join(entry["tokens"]), list(_spans(entry["tokens"], entry["ner_tags"]))


def _spans(tokens: Sequence[str], tags: Sequence[str]) -> Iterator[Span]:
    at, begun = 0, None
    for token, tag in zip([*tokens, ""], [*tags, "O"], strict=True):
        if begun and not tag.startswith("I-"):
            yield begun
            begun = None
        if tag != "O":
            begun = (begun[0] if begun else at, at + len(token), tag[2:])
        at += len(token) + 1


def of_marked(judge: Judge, path: Path, kinds: Sequence[str]) -> Figures:
    """Shares of the words and spans that stay as they are, without and with the finder."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    for text, spans in marked(path):
        judged = judge(text)
        for start, end, kind in spans:
            places = judged.content(start, end) if kind in counts else []
            if not places:
                continue
            by_list, at_all = judged.listed[places], (judged.listed | judged.found)[places]
            counts[kind] += Counter(
                spans=1,
                words=len(places),
                unlisted_left=int((~by_list).sum()),
                left=int((~at_all).sum()),
                verbatim=int(not at_all.any()),
            )
    counts["all"] = sum(counts.values(), Counter())
    return {
        kind: {
            "spans": found["spans"],
            "words": found["words"],
            "left_without": found["unlisted_left"] / found["words"],
            "left": found["left"] / found["words"],
            "verbatim": found["verbatim"] / found["spans"],
        }
        for kind, found in counts.items()
        if found["words"]
    }


def of_treebank(judge: Judge, path: Path) -> Figures:
    """Share of the words that are no names, yet replaced: for what the list says, and in all."""
    words = by_list = at_all = 0
    for sentence in read_conllu(path):
        judged = judge(" ".join(sentence.words))
        at = 0
        for token, tags in zip(sentence.words, sentence.allowed, strict=True):
            if not any(tags == 1 << TAG_ID[tag] for tag in _NO_NAMES):
                for place, word in enumerate(judged.words):
                    inside = word.start < at + len(token) and word.end > at
                    if inside and word.kind is not Kind.PUNCTUATION:
                        words += 1
                        by_list += bool(judged.listed[place])
                        at_all += bool(judged.listed[place] | judged.found[place])
            at += len(token) + 1
    return {"words": words, "drawn_without": by_list / words, "drawn": at_all / words}


def words_per_second(bundle: Bundle, finder: NameFinder, texts: Sequence[str]) -> float:
    """Median over rounds, of this thread's processor time."""
    words = split(" ".join(texts), bundle.manifest.clitics)[:_WORDS]
    running = [word.text for word in words]
    seen = looks(words, look_up(bundle.readings, Vectors(bundle).lookup(running)[1]))
    speeds = []
    for _ in range(_ROUNDS):
        begin = time.thread_time()
        finder.find(running, seen)
        speeds.append(len(running) / (time.thread_time() - begin))
    return statistics.median(speeds)


def main() -> None:
    """Judges the finder, and prints the tables."""
    parser = console.parser("names", __doc__, data="the marked sets and the treebank")
    parser.add_argument("--names", type=Path, default=Path("models/names"))
    arguments = parser.parse_args()
    require(parser, arguments.data, TREEBANK, *(path for path, _ in MARKED.values()))
    bundle, finder = Bundle.open(arguments.bundle), NameFinder.load(arguments.names)
    judge = Judge(bundle, finder)
    figures: Figures = {
        name: of_marked(judge, arguments.data / path, kinds)
        for name, (path, kinds) in MARKED.items()
    }
    none = of_treebank(judge, arguments.data / TREEBANK)
    running = [" ".join(s.words) for s in read_conllu(arguments.data / TREEBANK)]
    speed = round(words_per_second(bundle, finder, running))
    size = sum(file.stat().st_size for file in arguments.names.glob("names.*"))
    shown = table(
        "words of names that stay as they are",
        ("set", "kind"),
        ("spans", "words", "without the finder", "with it", "spans with no word changed"),
        (
            (
                name,
                kind,
                f"{found['spans']:,}",
                f"{found['words']:,}",
                *(share(found[key], 4) for key in ("left_without", "left", "verbatim")),
            )
            for name, kinds in figures.items()
            for kind, found in kinds.items()
        ),
    )
    said = (
        f"UD English GUM, dev: of {none['words']:,} words that are no names"
        f" {share(none['drawn_without'], 4)} are replaced without the finder,"
        f" {share(none['drawn'], 4)} with it; {speed:,} words a second of one core; {size:,} bytes"
    )
    kept = {"marked": figures, "treebank": none, "words_per_second": speed, "bytes": size}
    console.publish(arguments, kept, shown, said)


if __name__ == "__main__":
    main()
