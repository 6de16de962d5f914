"""Trains the finder that reads the sentence, from marked sentences to the files of the device."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.core.text.context_finder import BREAK, FORMAT, NAMED
from sottovoce.core.text.names import KINDS
from sottovoce.core.text.tagger import FEATURES, HASHES, FeatureSpec
from sottovoce.models.context_finder.network import Network, Size, to_onnx
from sottovoce.models.context_finder.sentences import Sentences, own_texts, weakened
from sottovoce.models.context_finder.vectors import Vectors, read_vectors
from sottovoce.models.names.data import (
    NONE,
    Lists,
    Marked,
    Mentions,
    changed,
    made_up,
    read_entities,
    read_masc_and_web,
    read_uner,
    read_wnut,
)
from sottovoce.models.tagger import NO_WORD, Progress, averaged, partial_loss

__all__ = [
    "SLOTS",
    "ContextFinderHyperparameters",
    "fit",
    "ordinary_words",
    "read_marked",
    "train_context_finder",
    "write",
]

_BLOCK: Final = 128
_GAP: Final = " "
SLOTS: Final = {"PERSON": "person", "PLACE": "place", "ORGANISATION": "org"}
_OFTEN: Final = 3
"""Times that a small word must occur in the treebanks to count as an ordinary one."""


@dataclass(frozen=True)
class ContextFinderHyperparameters:
    """How to train; the defaults ship."""

    epochs: int = 2
    marked: int = 3
    """Times over the sentences marked with kinds in each epoch."""
    requests: int = 20_000
    mentions: int = 10_000
    records: int = 5_000
    made_up: int = 8_000
    """Sentences of each kind of our own in each epoch."""
    named: float = 1.5
    """Weight in the loss of words that are names."""
    batch: int = 32
    """Blocks of 128 words a step."""
    learning_rate: float = 3e-3
    memory: float = 0.998
    """Share of the running average of the weights that each step keeps."""
    vector_epochs: int = 12
    """Times over the words whose vectors the features learn first."""
    thresholds: tuple[float, float, float, float] = (0.2, 0.35, 0.35, 0.5)
    """Recommended for each of `NAMED`, for the sum of its kinds."""
    seed: int = 7
    size: Size = field(default_factory=Size)


def read_marked(data: Path) -> list[Marked]:
    """Return the sentences marked with kinds that weights may learn from."""
    return [
        *read_wnut(data / "wnut17" / "train.jsonl.gz"),
        *read_uner(data / "uner_ewt" / "dev.jsonl.gz", data / "ud_ewt" / "dev.conllu.gz"),
        *read_entities(data / "btc" / "train.jsonl.gz", others=False),
        *read_entities(data / "wikigold" / "all.jsonl.gz", others=True),
        *read_entities(data / "crossner" / "train.jsonl.gz", others=True),
        *read_entities(data / "sec_filings" / "train.jsonl.gz", others=False),
    ]


def ordinary_words(treebanks: Sequence[Marked]) -> list[str]:
    """Return the small words that the treebanks often show as no name."""
    count = Counter(
        word.text
        for sentence in treebanks
        for word, bits in zip(sentence.words, sentence.allowed, strict=True)
        if bits == NONE and word.text.isalpha() and word.text.islower()
    )
    return sorted(word for word, times in count.items() if times >= _OFTEN)


def train_context_finder(
    data: Path,
    out: Path,
    lists: Lists,
    backbone: LoadedBackbone,
    *,
    recipe: ContextFinderHyperparameters | None = None,
    rare: Sequence[str] = (),
    foreign: Sequence[Sequence[str]] = (),
    progress: Progress | None = None,
) -> int:
    """Train on `data` and write context_finder.onnx and context_finder.json.

    Returns:
        The size of the network in bytes.

    Raises:
        InvalidInput: one of the data sets is missing.
    """
    recipe = recipe or ContextFinderHyperparameters()
    treebanks, marked = read_masc_and_web(data), read_marked(data)
    vectors = read_vectors(backbone, [*treebanks, *marked], lists, own_texts())
    return write(
        fit(treebanks, marked, lists, vectors, recipe, progress, rare, foreign), out, recipe
    )


def fit(
    treebanks: Sequence[Marked],
    marked: Sequence[Marked],
    lists: Lists,
    vectors: Vectors | None,
    recipe: ContextFinderHyperparameters,
    progress: Progress | None = None,
    rare: Sequence[str] = (),
    foreign: Sequence[Sequence[str]] = (),
) -> Network:
    """Return a trained network: the average of its last weights."""
    random = np.random.default_rng(recipe.seed)
    words = ordinary_words(treebanks)
    mentions = Mentions(lists, set(words).__contains__, [w for w in words if len(w) > 3], random)
    sentences = Sentences(mentions, words, random, rare, foreign)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = Network(recipe.size)
        if vectors is not None:
            _learn_vectors(network, vectors, recipe, random, progress)
        losses = _losses(network, treebanks, marked, mentions, sentences, recipe, random)
        return averaged(network, losses, recipe.learning_rate, recipe.memory, progress)


def write(network: Network, out: Path, recipe: ContextFinderHyperparameters) -> int:
    """Write both files to `out`, and return the size of the network in bytes."""
    out.mkdir(parents=True, exist_ok=True)
    model = to_onnx(network)
    (out / "context_finder.onnx").write_bytes(model)
    description = {
        "format": FORMAT,
        "kinds": KINDS,
        "features": FEATURES,
        "hashes": HASHES,
        "rows": recipe.size.rows,
        "seed": recipe.seed,
        "thresholds": dict(zip(NAMED, recipe.thresholds, strict=True)),
        "sha256": hashlib.sha256(model).hexdigest(),
        "recipe": asdict(recipe),
    }
    text = json.dumps(description, indent=2) + "\n"
    (out / "context_finder.json").write_text(text, encoding="utf-8")
    return len(model)


def _learn_vectors(
    network: Network,
    known: Vectors,
    recipe: ContextFinderHyperparameters,
    random: Generator,
    progress: Progress | None,
) -> None:
    """Teach the features what a language model knows of single words, in any case."""
    rows = FeatureSpec(recipe.size.rows, recipe.seed).rows_of(known.words)
    goal = torch.from_numpy(known.vectors)
    guess = torch.nn.Linear(recipe.size.width, goal.shape[1])
    parameters = [*network.forms.parameters(), *guess.parameters()]
    optimizer = torch.optim.Adam(parameters, 5e-3)
    steps = recipe.vector_epochs * math.ceil(len(rows) / 2048)
    network.train()
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 5e-3 * (1 - step / steps)
        chosen = random.integers(len(rows), size=2048)
        out = guess(network.forms(torch.from_numpy(rows[chosen])[None]))[0]
        loss = (out - goal[chosen]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if progress and step % 20 == 0:
            progress(f"vectors {loss.item():.3f}", step, steps)


def _losses(
    network: Network,
    treebanks: Sequence[Marked],
    marked: Sequence[Marked],
    mentions: Mentions,
    sentences: Sentences,
    recipe: ContextFinderHyperparameters,
    random: Generator,
) -> Iterator[tuple[float, Tensor]]:
    """Yield the share of the training that is done, and the loss on the next blocks."""
    spec = FeatureSpec(recipe.size.rows, recipe.seed)
    for epoch in range(recipe.epochs):
        own = [
            *(sentences.request() for _ in range(recipe.requests)),
            *(sentences.mention() for _ in range(recipe.mentions)),
            *(sentences.record() for _ in range(recipe.records)),
            *(made_up(mentions, f"made up {i // 3}") for i in range(recipe.made_up)),
        ]
        texts = [
            *(changed(sentence, random) for sentence in treebanks),
            *(
                changed(sentence, random, lambda kind: mentions.draw(SLOTS[kind]))
                for sentence in [*marked] * recipe.marked
            ),
            *(weakened(changed(sentence, random)) for sentence in own),
        ]
        rows, allowed = _blocks(texts, spec, recipe.size, random)
        steps = math.ceil(len(rows) / recipe.batch)
        for step in range(steps):
            chosen = slice(step * recipe.batch, (step + 1) * recipe.batch)
            inputs, targets = torch.from_numpy(rows[chosen]), torch.from_numpy(allowed[chosen])
            scores = network(inputs, (targets != NO_WORD).float())
            weights = torch.where(targets & NONE == 0, recipe.named, 1.0)
            yield (epoch + step / steps) / recipe.epochs, partial_loss(scores, targets, weights)


def _blocks(
    sentences: Sequence[Marked], spec: FeatureSpec, size: Size, random: Generator
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return passages in random order, empty places between, cut into blocks of equal length."""
    texts = list(_passages(sentences, random))
    words: list[str] = []
    allowed: list[int] = []

    def leave_empty(places: int) -> None:
        words.extend([_GAP] * places)
        allowed.extend([NO_WORD] * places)

    for index in random.permutation(len(texts)):
        for place, sentence in enumerate(texts[index]):
            if place and random.random() < 0.3:
                words.append(BREAK)
                allowed.append(NONE)
            words += [word.text for word in sentence.words]
            allowed += sentence.allowed
        leave_empty(max(size.distances))
    leave_empty(-len(words) % _BLOCK)
    rows = spec.rows_of(words)
    return rows.reshape(-1, _BLOCK, rows.shape[1]), np.array(allowed).reshape(-1, _BLOCK)


def _passages(sentences: Sequence[Marked], random: Generator) -> Iterator[Sequence[Marked]]:
    """Yield runs of one to four consecutive sentences of one document."""
    start = 0
    while start < len(sentences):
        end = start + int(random.integers(1, 5))
        document = sentences[start].document
        chosen = [s for s in sentences[start:end] if document and s.document == document]
        yield chosen or [sentences[start]]
        start += max(len(chosen), 1)
