"""What does the name finder that ships find, what does it take for names, how fast is it?

Names that people marked in public texts, and words that people tagged as no names, of none of which
the finder has learned: how many are replaced for what the list alone says of them (see
`ALWAYS_DRAWN`), and how many with the finder. Counted as `bench.leaks` counts, which asks whole
devices; here a word counts as replaced when something says it must be. Then words a second of one
thread, by processor time, hashing included. Needs the data sets (see `--data`).

    python -m bench.names
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import console
from bench.console import Figures, share, table
from bench.data import require
from bench.leaks.corpora import FILES, OTHER_WORDS, Document, read
from bench.leaks.counting import Tally, tally
from bench.leaks.released import DRAW, PASS, Fate
from sottovoce.cloud.tagger.names_training import ALWAYS_DRAWN
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.looks import looks
from sottovoce.core.text.names import KINDS, NameFinder
from sottovoce.core.text.readings import READINGS, UNLISTED, look_up
from sottovoce.core.text.words import Kind, split

CORPORA: Final = ("pii", "uner_ewt", "wnut17", "nationalities", OTHER_WORDS)
PROMISED: Final = ("persons", "places", "organisations", "addresses", "nationalities")
"""Groups of names of which hardly any word may stay."""

CASES: Final[dict[str, Callable[[str], str]]] = {"small": str.lower, "capital": str.upper}

_READINGS: Final = (*READINGS, UNLISTED)
_WORDS: Final = 20_000
_ROUNDS: Final = 7

Fates = tuple[Fate, ...]


class Judge:
    """Cuts texts as the device does, and says what must be replaced."""

    def __init__(self, bundle: Bundle, finder: NameFinder) -> None:
        self._clitics = bundle.manifest.clitics
        self._readings = bundle.readings
        self._vectors = Vectors(bundle)
        self._finder = finder

    def __call__(self, text: str) -> tuple[Fates, Fates]:
        """What becomes of the words of `text` without the finder, and with it."""
        words = split(text, self._clitics)
        texts = [word.text for word in words]
        readings = look_up(self._readings, self._vectors.lookup(texts)[1])
        kinds = self._finder.find(texts, looks(words, readings)).kinds
        without, with_it = [], []
        for word, reading, kind in zip(words, readings.tolist(), kinds.tolist(), strict=True):
            tag = _READINGS[reading] if word.kind is Kind.WORD else word.kind.name
            drawn = word.kind is Kind.IDENTIFIER or tag in ALWAYS_DRAWN
            without.append(_fate(word.text, word.start, tag, drawn))
            with_it.append(_fate(word.text, word.start, KINDS[kind] or tag, drawn or kind > 0))
        return tuple(without), tuple(with_it)

    def words_per_second(self, texts: Sequence[str]) -> float:
        """Median over rounds, of this thread's processor time."""
        words = split(" ".join(texts), self._clitics)[:_WORDS]
        running = [word.text for word in words]
        seen = looks(words, look_up(self._readings, self._vectors.lookup(running)[1]))
        speeds = []
        for _ in range(_ROUNDS):
            begin = time.thread_time()
            self._finder.find(running, seen)
            speeds.append(len(running) / (time.thread_time() - begin))
        return statistics.median(speeds)


def _fate(text: str, start: int, tag: str, drawn: bool) -> Fate:
    treatment = DRAW if drawn else PASS
    return Fate(start, start + len(text), "" if drawn else text, treatment, tag)


def figures_of(judge: Judge, documents: Sequence[Document]) -> Figures:
    """By group: spans and words, and the shares of them that stay without the finder and with it;
    the last line of names is all that are promised together."""
    judged = [judge(document.text) for document in documents]
    without, with_it = (tally(documents, [fates[which] for fates in judged])[0] for which in (0, 1))
    for found in (without, with_it):
        together = [tallied for group, tallied in found.items() if group in PROMISED]
        if len(together) > 1:
            found["promised"] = Tally()
            for tallied in together:
                found["promised"].extend(tallied)
    return {
        group: {
            "spans": sum(tallied.spans.n),
            "words": sum(tallied.words.n),
            "left_without": sum(without[group].words.hits) / sum(tallied.words.n),
            "left": sum(tallied.words.hits) / sum(tallied.words.n),
            "verbatim": sum(tallied.spans.hits) / sum(tallied.spans.n),
        }
        for group, tallied in with_it.items()
        if group in (*PROMISED, "promised", OTHER_WORDS)
    }


def _typed(documents: Iterable[Document], letters: str | None) -> Iterator[Document]:
    for document in documents:
        text = CASES[letters](document.text) if letters else document.text
        if len(text) == len(document.text):  # or the marks would stand elsewhere
            yield replace(document, text=text)


def main() -> None:
    """Judges the finder, and prints the tables."""
    parser = console.parser("names", __doc__, data="the marked sets and the treebank")
    parser.add_argument("--names", type=Path, default=Path("models/names"))
    parser.add_argument("--letters", choices=CASES, help="as if all had been typed in these")
    arguments = parser.parse_args()
    require(parser, arguments.data, *(file for name in CORPORA for file in FILES[name]))
    judge = Judge(Bundle.open(arguments.bundle), NameFinder.load(arguments.names))
    corpora = {
        name: list(_typed(read(name, arguments.data), arguments.letters))
        for name in console.track(CORPORA, "reading the texts")
    }
    found = {
        name: figures_of(judge, documents)
        for name, documents in console.track(corpora.items(), "looking for names")
    }
    speed = round(judge.words_per_second([document.text for document in corpora[OTHER_WORDS]]))
    size = sum(file.stat().st_size for file in arguments.names.glob("names.*"))
    others = found[OTHER_WORDS][OTHER_WORDS]
    shown = table(
        "words of names that stay as they are",
        ("texts", "kind"),
        ("names", "words", "left without the finder", "left with it", "names left whole"),
        (
            (
                name,
                group,
                f"{line['spans']:,}",
                f"{line['words']:,}",
                *(share(line[key], 4) for key in ("left_without", "left", "verbatim")),
            )
            for name, groups in found.items()
            for group, line in groups.items()
            if group != OTHER_WORDS
        ),
    )
    said = (
        f"UD English GUM, dev: of {others['words']:,} words that are no names"
        f" {share(1 - others['left_without'], 4)} are replaced without the finder,"
        f" {share(1 - others['left'], 4)} with it; {speed:,} words a second of one core;"
        f" {size:,} bytes"
    )
    kept = {"texts": found, "words_per_second": speed, "bytes": size}
    console.publish(arguments, kept, shown, said)


if __name__ == "__main__":
    main()
