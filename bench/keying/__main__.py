"""What should noise be drawn by, so that copies tell nothing new and equal releases little?

The bench compares ways to draw noise from a key. At one end, every place of every document gets
its own draw. At the other end, each word gets one draw for good.

The attacker sees noisy vectors and pools all places that he can link to one word. He pools near
copies and words that repeat within a document. He also pools all places with one draw, their
neighbours and their counts. Finally, he may know a tenth of all documents. See docs/attacks.md.

    python -m bench.keying
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench import console
from bench.attacks.bigram import Bigrams, numbered, public_sequences
from bench.attacks.measures import Tally
from bench.attacks.public import Public
from bench.console import Figures
from bench.data import require
from bench.keying.corpus import NOISED, WAYS, Corpus, copies, label, places
from bench.keying.pooling import Attacker, draw
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.attacker import Candidates
from sottovoce.core.privacy.mechanisms.spherical import PCT2T2
from sottovoce.core.text.word_classes import READINGS
from sottovoce.models.corpus import read_conllu

FRESH: Final = next(iter(WAYS))
_REPEATED: Final = 4
_MESSAGE: Final = 5
"""Sentences in a message that gets copied."""
_WEIGHTS: Final = ((0.0, 0.0), (0.4, 0.0), (0.8, 0.0), (0.5, 0.1), (0.5, 0.4))
"""Weights of context and of counts."""
_CACHE: Final = (0.0, 0.05, 0.15, 0.3, 0.5)
_POOLED: Final = (FRESH, "word, left and right", "word and left", "word")
"""Ways under which neighbours are pooled, with a key for each document and with one for all."""


@dataclass(frozen=True)
class Budget:
    """Sizes: words of public text for the bigrams, attacked documents, and copied messages."""

    bigrams: int
    documents: int
    messages: int


FULL: Final = Budget(2_500_000, 150, 80)
QUICK: Final = Budget(1_000_000, 60, 60)


class Bench:
    """The texts and the attacker at one level."""

    def __init__(self, public: Public, data: Path, budget: Budget) -> None:
        self.public, self.budget = public, budget
        self.documents = _documents(data / "ud_gum" / "train.conllu.gz")[: budget.documents]
        # Number all texts before the model counts them, because the lexicon is part of the model.
        self.whole = self.corpus([" ".join(each) for each in self.documents])
        clitics = public.bundle.manifest.clitics
        text = numbered(public_sequences(data, budget.bigrams), public.lexicon, clitics)
        self.bigrams = Bigrams.of(text, len(public.lexicon))

    def corpus(self, documents: Sequence[str]) -> Corpus:
        """Return documents as arrays."""
        bundle = self.public.bundle
        return Corpus.of(
            documents, self.public.lexicon, bundle.manifest.clitics, np.asarray(bundle.readings)
        )

    def attacker(self, level: str) -> tuple[Attacker, NDArray[np.float64]]:
        """Return an attacker without context, and the eta of every word."""
        bundle, counts = self.public.bundle, self.public.counts.sum(axis=1)
        mechanism = PCT2T2.of(bundle.manifest.level(PCT2T2.name, level), NOISED)
        classes, etas = {}, {}
        by_word = np.ones(len(bundle.words))
        for reading in NOISED:
            name = mechanism.word_class(reading, False)
            members = bundle.class_members(name)
            weights = np.zeros(len(bundle.words))
            weights[members] = counts[members]
            number = READINGS.index(reading)
            classes[number] = Candidates.of(weights, members)
            etas[number] = mechanism.eta_of(name)
            by_word[members] = etas[number]
        space, boundary = np.asarray(bundle.space), self.public.lexicon.boundary
        return Attacker(space, classes, etas, self.bigrams, boundary), by_word

    def one_copy_and_twenty(self, level: str) -> Iterator[tuple[str, Tally, Tally]]:
        """Yield, for each way, MAP on a message alone, and on the message with its copies."""
        attacker, etas = self.attacker(level)
        sentences = [each for document in self.documents for each in document]
        step = max(_MESSAGE, len(sentences) // self.budget.messages)
        messages = [
            " ".join(sentences[start : start + _MESSAGE])
            for start in range(0, len(sentences) - _MESSAGE, step)
        ]
        made = [[*copies(message)] for message in messages]
        bases = self.corpus(messages)
        lengths = np.bincount(bases.document, minlength=len(messages))
        text = self.corpus([*messages, *(copy.text for each in made for copy in each)])
        origin = np.full(len(text), -1, np.int64)  # the place in ``bases`` that each place copies
        starts = np.cumsum(lengths) - lengths
        origin[: len(bases)] = np.arange(len(bases))
        flat = [(n, copy) for n, each in enumerate(made) for copy in each]
        for number, (message, copy) in enumerate(flat, len(messages)):
            which = np.flatnonzero(text.document == number)
            within = places(copy, text.index[which].astype(np.int64), int(lengths[message]))
            origin[which[within >= 0]] = starts[message] + within[within >= 0]
        copied = origin >= 0
        assert (text.ids[copied] == bases.ids[origin[copied]]).all()
        alone = np.arange(len(text)) + len(bases)
        base = text.document < len(messages)
        for name, way in WAYS.items():
            seen = draw(text, way(text), attacker.space, etas, np.random.default_rng(3))
            links = (alone, np.where(copied, origin, alone))
            one, twenty = (attacker.alone(text, seen, link) == text.ids for link in links)
            yield name, _tally(one, text, base), _tally(twenty, text, base)

    def repeated(self, level: str) -> Iterator[tuple[str, Tally, Tally, Tally]]:
        """Yield the tallies of each way, on words that occur at least four times in their document.

        The tallies are MAP on one place, MAP with a cache, and MAP on all places together.
        The cache links the places that share one draw. For the last tally, the attacker knows which
        places hold one word.
        """
        attacker, etas = self.attacker(level)
        text = self.whole
        word = label(text.document, text.ids)
        judged = np.bincount(word)[word] >= _REPEATED
        for name, way in WAYS.items():
            seen = draw(text, way(text), attacker.space, etas, np.random.default_rng(4))
            suspects = attacker.suspects(text, seen, label(text.document, seen.draw))
            one, cache, granted = (
                _tally(found == text.ids, text, judged)
                for found in (
                    attacker.alone(text, seen, np.arange(len(text))),
                    _best(text, judged, (attacker.with_cache(text, suspects, w) for w in _CACHE)),
                    attacker.alone(text, seen, word),
                )
            )
            yield name, one, cache, granted

    def pooled(self, level: str) -> Iterator[tuple[str, int, Tally]]:
        """Yield the words recovered from neighbours and counts, for each way and scope of a key.

        The attacker knows that all places of one draw hold one word. The weights are the best ones.
        """
        attacker, etas = self.attacker(level)
        for name in _POOLED:
            for size in (1, len(self.documents)):
                if name == FRESH and size > 1:
                    continue
                under_one_key = label(WAYS[name](self.whole), self.whole.document // size)
                seen = draw(
                    self.whole, under_one_key, attacker.space, etas, np.random.default_rng(5)
                )
                suspects = attacker.suspects(self.whole, seen, seen.draw)
                keys = -(-len(self.documents) // size)
                tried = (
                    attacker.in_context(self.whole, suspects, context, counts, keys)
                    for context, counts in _WEIGHTS
                )
                found = _best(self.whole, self.whole.noised, tried)
                yield name, size, _tally(found == self.whole.ids, self.whole, self.whole.noised)

    def known(self, level: str) -> Iterator[tuple[str, Tally, Tally]]:
        """Yield what a codebook gives for each way.

        The codebook is made of a tenth of the documents. The tallies are the words of the other
        documents that it lists, and the words recovered with it. MAP fills its gaps.
        """
        attacker, etas = self.attacker(level)
        text = self.whole
        read = text.document % 10 == 0
        for name, way in WAYS.items():
            seen = draw(text, way(text), attacker.space, etas, np.random.default_rng(7))
            in_book = np.isin(seen.draw, seen.draw[read])
            right = attacker.alone(text, seen, seen.draw) == text.ids
            yield name, _tally(in_book, text, ~read), _tally(in_book | right, text, ~read)


def _best(
    text: Corpus, judged: NDArray[np.bool_], tried: Iterable[NDArray[np.int32]]
) -> NDArray[np.int32]:
    """Return the guesses that are right most often, as if the attacker chose the best weights."""
    return max(tried, key=lambda found: int((found == text.ids)[judged & text.noised].sum()))


def _tally(right: NDArray[np.bool_], text: Corpus, judged: NDArray[np.bool_]) -> Tally:
    """Count the noised words among ``judged``, by document."""
    which = text.noised & judged
    n = int(text.document.max()) + 1
    by = text.document
    return Tally(np.bincount(by[which & right], minlength=n), np.bincount(by[which], minlength=n))


def _documents(path: Path) -> list[list[str]]:
    """Return the sentences of each document of a treebank."""
    found: dict[str, list[str]] = {}
    for sentence in read_conllu(path):
        found.setdefault(sentence.document, []).append(" ".join(sentence.words))
    return [*found.values()]


def measure(bench: Bench, level: str) -> Figures:
    """Measure everything at one level."""
    found: Figures = {}
    for name, one, twenty in bench.one_copy_and_twenty(level):
        found[name] = {"one": _figure(one), "twenty": _figure(twenty)}
    for name, *tallies in bench.repeated(level):
        names = ("repeated, one", "cache", "granted")
        found[name] |= {column: _figure(each) for column, each in zip(names, tallies, strict=True)}
    for name, book, read in bench.known(level):
        found[name] |= {"codebook": _figure(book), "known": _figure(read)}
        console.STEPS.print(level, name, found[name])
    for name, size, tally in bench.pooled(level):
        scope = "all" if size == len(bench.documents) else str(size)
        found[name][f"pooled {scope}"] = _figure(tally)
        console.STEPS.print(level, name, scope, _shown(_figure(tally)))
    return found


def _figure(tally: Tally) -> list[float]:
    return [tally.share, *tally.interval()]


COLUMNS: Final = (
    *("one", "twenty", "repeated, one", "cache", "granted", "codebook", "known"),
    *("pooled 1", "pooled all"),
)


def main() -> None:
    """Print the table of each level."""
    parser = console.parser("keying", __doc__, quick="fewer texts", models=True, data="treebanks")
    parser.add_argument(
        "--levels", type=console.names(), default=("strong", "balanced"), metavar="NAMES"
    )
    arguments = parser.parse_args()
    require(parser, arguments.data, "ud_gum", "ud_ewt", "text", "pos_masc")
    budget = QUICK if arguments.quick else FULL
    bench = Bench(Public(Bundle.open(arguments.bundle), arguments.models), arguments.data, budget)
    figures: Figures = {"bundle": bench.public.bundle.id, "words": len(bench.whole)}
    tables = []
    for level in console.track(arguments.levels, "attacking"):
        figures[level] = measure(bench, level)
        rows = [
            (name, *(_shown(found.get(column)) for column in COLUMNS))
            for name, found in figures[level].items()
        ]
        title = f"{level}: share of protected words read, by what noise is drawn by"
        tables.append(console.table(title, ("one draw a",), COLUMNS, rows))
    console.publish(arguments, figures, *tables)


def _shown(figure: list[float] | None) -> str:
    return "" if figure is None else "{:.3f}\n{:.3f}, {:.3f}".format(*figure)


if __name__ == "__main__":
    main()
