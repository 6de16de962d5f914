"""Train the name finder that ships, from marked sentences to the two files in a bundle.

Read it top to bottom: the network, then reading sentences, keeping some for the thresholds,
training, writing the graph, choosing the thresholds, measuring. All steps after the training use
the written file.

The network sees the forms of a word, but only the shapes of its neighbours (`looks`), never their
letters. So a name is found by its own form and by the sentence around it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from sottovoce.core.text.names import FORMAT, KINDS, Found, NameFinder
from sottovoce.core.text.tagger import FEATURES, HASHES, FeatureSpec
from sottovoce.core.text.word_classes import LOOKS, READINGS, UNLISTED, looks
from sottovoce.core.text.words import Kind, Word
from sottovoce.models.names_data import (
    NONE,
    SLOTS,
    Lists,
    Marked,
    Mentions,
    changed,
    made_up,
    read_masc_and_web,
    read_uner,
    read_wnut,
)
from sottovoce.models.tagger import NO_WORD, Forms, Graph, Progress, averaged, partial_loss


@dataclass(frozen=True)
class Size:
    """Dimensions of the network. The defaults ship."""

    rows: tuple[int, ...] = (12288, 512, 128, 2048, 128, 768, 2048, 3072)
    """Rows of the table for each of `FEATURES`."""
    feature_width: int = 24
    width: int = 64
    """Of both streams."""
    distances: tuple[int, ...] = (1, 2, 3)
    """Distance of the three words that each layer sees."""
    joint: int = 96
    """Width of the layer that joins the streams."""
    neighbours: Literal["looks", "words"] = "looks"

    @property
    def reach(self) -> int:
        """The most words on either side that may matter."""
        return sum(self.distances)


class Network(nn.Module):
    """Scores of all kinds for words in context."""

    def __init__(self, size: Size, *, dropout: float = 0.2, unknown: float = 0.1) -> None:
        super().__init__()
        self.size = size
        self.forms = Forms(size.rows, size.feature_width, size.width, dropout, unknown)
        self.look = nn.Embedding(LOOKS, size.width)
        self.layers = nn.ModuleList(nn.Linear(3 * size.width, size.width) for _ in size.distances)
        self.norms = nn.ModuleList(nn.LayerNorm(size.width) for _ in size.distances)
        self.join = nn.Linear(2 * size.width, size.joint)
        self.join_norm = nn.LayerNorm(size.joint)
        self.out = nn.Linear(size.joint, len(KINDS))
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor, looks: Tensor, present: Tensor) -> Tensor:
        """Return scores (B, T, kinds) of the words that are present.

        Passages in one row do not influence each other if the number of empty places between them
        is at least the longest distance.

        Args:
            rows: (B, T, features * HASHES) of the table.
            looks: (B, T).
            present: (B, T), 1 at words, 0 at empty places.
        """
        present = present.unsqueeze(-1)
        own = self.forms(rows)  # (B, T, width)
        around = self.look(looks) * present  # (B, T, width)
        if self.size.neighbours == "words":
            around = (around + own) * present
        for distance, layer, norm in zip(self.size.distances, self.layers, self.norms, strict=True):
            padded = nn.functional.pad(around, (0, 0, distance, distance))
            three = [padded[:, : -2 * distance], around, padded[:, 2 * distance :]]
            change = torch.relu(norm(layer(torch.cat(three, -1))))
            around = (around + self.dropout(change)) * present
        joint = torch.relu(self.join_norm(self.join(torch.cat([own, around], -1))))
        scores: Tensor = self.out(self.dropout(joint))
        return scores


def to_onnx(network: Network) -> bytes:
    """`rows` int32 (n, features * HASHES), `looks` int32 (n,) -> `logits` float32 (n, kinds).

    The weights are whole numbers of one byte, see `Graph`.

    Raises:
        ValueError: the network sees its neighbours' words.
    """
    if network.size.neighbours != "looks":
        raise ValueError("a network that sees its neighbours' words must not ship")
    graph = Graph()
    own = graph.forms(network.forms)
    state = graph.lookup("look", network.look.weight, "looks")
    for i, (distance, layer, norm) in enumerate(
        zip(network.size.distances, network.layers, network.norms, strict=True)
    ):
        around = graph.around(i, state, distance)
        change = graph.norm(f"norm{i}", norm, graph.linear(f"layer{i}", layer, around))
        state = graph.add("Add", state, change, out=f"state{i}")
    both = graph.add("Concat", own, state, out="both", axis=1)
    joint = graph.norm("join_norm", network.join_norm, graph.linear("join", network.join, both))
    graph.add("Identity", graph.linear("out", network.out, joint), out="logits")
    inputs = {"rows": (len(network.size.rows) * HASHES,), "looks": ()}
    return graph.model("names", inputs, len(KINDS))


ALWAYS_DRAWN: Final = frozenset({"NAME", "NUMBER", "ORIGIN", "UNLISTED"})
"""Readings of words that are replaced even if the finder finds nothing."""

_DRAWN: Final = np.array([reading in ALWAYS_DRAWN for reading in (*READINGS, UNLISTED)])
_OPEN: Final = frozenset({"NOUN", "VERB", "ADJ", "ADV", "FACT"})
_BLOCK: Final = 128
_GAP: Final = Word(" ", 0, 0, Kind.PUNCTUATION)


@dataclass(frozen=True)
class NamesHyperparameters:
    """Settings of the training. The defaults ship."""

    epochs: int = 6
    """Passes over the treebanks."""
    marked: int = 3
    """Passes over the sentences marked with kinds, for each pass over the treebanks."""
    made_up: int = 20_000
    """Sentences of our own in each epoch."""
    batch: int = 16
    """Blocks of 128 words a step."""
    learning_rate: float = 3e-3
    memory: float = 0.998
    """Share of the running average of the weights that each step keeps."""
    drawn_anyway: float = 0.3
    """Weight in the loss of words that are replaced in any case."""
    overdrawn: float = 0.0075
    """Share of the words without a name that the thresholds may let through as names."""
    other: float = 0.5
    """Threshold of OTHER names (days, films, goods), which no promise covers."""
    held_out: int = 12
    """One document in this many is kept for the thresholds."""
    seed: int = 7
    size: Size = field(default_factory=Size)


@dataclass(frozen=True)
class Listed:
    """The readings of the words a device lists, by normal form."""

    readings: Mapping[str, int]
    normal_form: Callable[[str], str]

    def of(self, words: Sequence[Word]) -> NDArray[np.uint8]:
        """Places in ``(*READINGS, UNLISTED)`` of `words`."""
        known: dict[str, int] = {}
        for word in words:
            if word.text not in known:
                form = self.normal_form(word.text.replace("’", "'"))
                known[word.text] = self.readings.get(form, len(READINGS))
        return np.array([known[word.text] for word in words], np.uint8)

    def ordinary(self, word: str) -> bool:
        """Return whether the device takes `word` for ordinary; then only the finder can hide it."""
        reading = self.readings.get(self.normal_form(word))
        return reading is not None and READINGS[reading] in _OPEN


@dataclass(frozen=True)
class Measured:
    """Figures of a finder, without words that are replaced anyhow (see `ALWAYS_DRAWN`)."""

    found: float
    """Share found of the words in names of persons, places and organisations."""
    right_kind: float
    """Share of the found words with the right kind."""
    overdrawn: float
    """Share of the words without a name that the finder calls names."""
    words: int


def train_names(
    data: Path,
    out: Path,
    listed: Listed,
    lists: Lists,
    *,
    recipe: NamesHyperparameters | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Train on `data` and sentences made up around `lists`; write names.onnx and names.json.

    Returns the figures on the sentences kept back, on which the thresholds are chosen. With
    `Size.neighbours` set to "words", only figures are returned and nothing is written.

    Raises:
        InvalidInput: one of the data sets is missing.
    """
    recipe = recipe or NamesHyperparameters()
    treebanks = read_masc_and_web(data)
    uner = read_uner(data / "uner_ewt" / "dev.jsonl.gz", data / "ud_ewt" / "dev.conllu.gz")
    wnut = read_wnut(data / "wnut17" / "train.jsonl.gz")
    random = np.random.default_rng(recipe.seed)
    words = [word for word, place in listed.readings.items() if READINGS[place] in ("NOUN", "ADJ")]
    mentions = Mentions(lists, listed.ordinary, words, random)
    trained, kept = _apart([treebanks, uner, wnut], recipe.held_out)
    kept += [made_up(mentions, "made up") for _ in range(1_000)]
    network = fit(trained[0], trained[1] + trained[2], mentions, listed, recipe, progress)
    if recipe.size.neighbours == "words":
        finder = _untranslated(network, kept, listed, recipe)
    else:
        finder = write(network, kept, listed, out, recipe)
    return measure(finder, kept, listed)


def _apart(
    sources: Sequence[Sequence[Marked]], every: int
) -> tuple[list[list[Marked]], list[Marked]]:
    """Return each source without one in `every` documents, and the sentences of these."""
    trained: list[list[Marked]] = []
    kept: list[Marked] = []
    for source in sources:
        documents = {name: i for i, name in enumerate(dict.fromkeys(s.document for s in source))}
        trained.append([s for s in source if documents[s.document] % every])
        kept += [s for s in source if not documents[s.document] % every]
    return trained, kept


def fit(
    treebanks: Sequence[Marked],
    marked: Sequence[Marked],
    mentions: Mentions,
    listed: Listed,
    recipe: NamesHyperparameters,
    progress: Progress | None = None,
) -> Network:
    """Return a trained network, the average of its last weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = Network(recipe.size)
        losses = _losses(network, treebanks, marked, mentions, listed, recipe)
        return averaged(network, losses, recipe.learning_rate, recipe.memory, progress)


def _losses(
    network: Network,
    treebanks: Sequence[Marked],
    marked: Sequence[Marked],
    mentions: Mentions,
    listed: Listed,
    recipe: NamesHyperparameters,
) -> Iterator[tuple[float, Tensor]]:
    """Yield the share of training done, and the loss on the next blocks."""
    random = np.random.default_rng(recipe.seed)
    spec = FeatureSpec(recipe.size.rows, recipe.seed)
    for epoch in range(recipe.epochs):
        sentences = [
            *(changed(sentence, random) for sentence in treebanks),
            *(
                changed(sentence, random, lambda kind: mentions.draw(SLOTS[kind]))
                for sentence in [*marked] * recipe.marked
            ),
            *(
                changed(made_up(mentions, f"made up {number // 3}"), random)
                for number in range(recipe.made_up)
            ),
        ]
        rows, seen, allowed, drawn = _blocks(sentences, listed, spec, recipe.size, random)
        steps = math.ceil(len(rows) / recipe.batch)
        for step in range(steps):
            chosen = slice(step * recipe.batch, (step + 1) * recipe.batch)
            # (B, T, features * HASHES), three times (B, T)
            inputs, around, targets, anyway = (
                torch.from_numpy(part[chosen]) for part in (rows, seen, allowed, drawn)
            )
            scores = network(inputs, around, (targets != NO_WORD).float())
            weights = torch.where(anyway, recipe.drawn_anyway, 1.0)
            yield (epoch + step / steps) / recipe.epochs, partial_loss(scores, targets, weights)


def _blocks(
    sentences: Sequence[Marked], listed: Listed, spec: FeatureSpec, size: Size, random: Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
    """Yield blocks of equal length: passages in random order, with empty places between."""
    texts = list(_passages(sentences, random))
    words: list[Word] = []
    allowed: list[int] = []

    def leave_empty(places: int) -> None:
        words.extend([_GAP] * places)
        allowed.extend([NO_WORD] * places)

    for index in random.permutation(len(texts)):
        for sentence in texts[index]:
            words += sentence.words
            allowed += sentence.allowed
        leave_empty(max(size.distances))
    leave_empty(-len(words) % _BLOCK)
    rows = spec.rows_of([word.text for word in words])
    readings = listed.of(words)
    return (
        rows.reshape(-1, _BLOCK, rows.shape[1]),
        looks(words, readings).astype(np.int32).reshape(-1, _BLOCK),
        np.array(allowed).reshape(-1, _BLOCK),
        _DRAWN[readings].reshape(-1, _BLOCK),
    )


def _passages(sentences: Sequence[Marked], random: Generator) -> Iterator[Sequence[Marked]]:
    """Yield runs of one to eight consecutive sentences of one document."""
    start = 0
    while start < len(sentences):
        end = start + int(random.integers(1, 9))
        document = sentences[start].document
        chosen = [s for s in sentences[start:end] if s.document == document]
        yield chosen
        start += len(chosen)


def write(
    network: Network,
    kept: Sequence[Marked],
    listed: Listed,
    out: Path,
    recipe: NamesHyperparameters,
) -> NameFinder:
    """Write both files to `out`, with thresholds for `recipe.overdrawn` of `kept`."""
    out.mkdir(parents=True, exist_ok=True)
    model = to_onnx(network)
    (out / "names.onnx").write_bytes(model)
    description = {
        "format": FORMAT,
        "kinds": KINDS,
        "features": FEATURES,
        "hashes": HASHES,
        "rows": recipe.size.rows,
        "seed": recipe.seed,
        "looks": LOOKS,
        "reach": recipe.size.reach,
        "sha256": hashlib.sha256(model).hexdigest(),
        "recipe": asdict(recipe),
    }

    def told(thresholds: Mapping[str, float]) -> NameFinder:
        text = json.dumps(description | {"thresholds": thresholds}, indent=2) + "\n"
        (out / "names.json").write_text(text, encoding="utf-8")
        return NameFinder.load(out)

    return _with_thresholds(told, kept, listed, recipe)


def _untranslated(
    network: Network, kept: Sequence[Marked], listed: Listed, recipe: NamesHyperparameters
) -> NameFinder:
    """Return a finder over the network in torch, which must not ship."""
    spec, reach = FeatureSpec(recipe.size.rows, recipe.seed), recipe.size.reach

    def told(thresholds: Mapping[str, float]) -> NameFinder:
        return NameFinder(_Session(network), spec, reach, [*thresholds.values()])

    return _with_thresholds(told, kept, listed, recipe)


class _Session:
    """A torch network in place of an onnxruntime session."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def run(self, _: None, inputs: Mapping[str, NDArray[np.int32]]) -> list[NDArray[np.float32]]:
        rows, around = (torch.from_numpy(inputs[name])[None] for name in ("rows", "looks"))
        with torch.inference_mode():
            scores = self._network(rows, around, torch.ones(around.shape))
        return [scores[0].numpy()]


def _with_thresholds(
    told: Callable[[Mapping[str, float]], NameFinder],
    kept: Sequence[Marked],
    listed: Listed,
    recipe: NamesHyperparameters,
) -> NameFinder:
    """Return the finder with thresholds that call `recipe.overdrawn` of `kept` names."""
    even = told(dict.fromkeys(KINDS[1:], 0.5))
    threshold = _threshold(even, kept, listed, recipe.overdrawn)
    return told(dict.fromkeys(KINDS[1:], threshold) | {"OTHER": max(threshold, recipe.other)})


def _threshold(
    finder: NameFinder, kept: Sequence[Marked], listed: Listed, overdrawn: float
) -> float:
    """Return the least threshold that few enough words without a name reach."""
    judged = list(_judged(finder, kept, listed))
    reached = [
        np.where(drawn, 0, found.probability)[allowed == NONE] for found, allowed, drawn in judged
    ]
    threshold = float(np.quantile(np.concatenate(reached), 1 - overdrawn))
    return round(min(max(threshold, 0.01), 0.5), 3)  # the range that devices accept


def measure(finder: NameFinder, sentences: Sequence[Marked], listed: Listed) -> Measured:
    """Measure `finder` on whole documents."""
    names = found_names = right = nothing = overdrawn = 0
    for found, allowed, drawn in _judged(finder, sentences, listed):
        called = (found.kinds > 0) & ~drawn
        promised = np.isin(allowed, _PROMISED) & ~drawn
        names += int(promised.sum())
        found_names += int((called & promised).sum())
        right += int((called & promised & (1 << found.kinds.astype(np.int64) == allowed)).sum())
        nothing += int((allowed == NONE).sum())
        overdrawn += int((called & (allowed == NONE)).sum())
    return Measured(
        found=found_names / max(names, 1),
        right_kind=right / max(found_names, 1),
        overdrawn=overdrawn / max(nothing, 1),
        words=names + nothing,
    )


_PROMISED: Final = [1 << KINDS.index(kind) for kind in ("PERSON", "PLACE", "ORGANISATION")]


def _judged(
    finder: NameFinder, sentences: Sequence[Marked], listed: Listed
) -> Iterator[tuple[Found, NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield the found kinds of each document, the allowed ones, and the words always drawn."""
    for _, group in itertools.groupby(sentences, key=lambda sentence: sentence.document):
        document = list(group)
        words = [word for sentence in document for word in sentence.words]
        readings = listed.of(words)
        found = finder.find([word.text for word in words], looks(words, readings))
        allowed = np.array([kinds for sentence in document for kinds in sentence.allowed])
        yield found, allowed, _DRAWN[readings]
