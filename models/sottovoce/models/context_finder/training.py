"""Trains the finder that reads the sentence, from marked sentences to the files of the device.

It also learns from the opinions of the finder `full`, which reads public text without marks. The
teacher reads sentences as they were written. The small finder reads them in other cases too, so it
learns what only the capitals told the teacher.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from sottovoce.cloud.models.backbone import LoadedBackbone, fast_bfloat16
from sottovoce.core.text.context_finder import BREAK, FEATURES, FORMAT, NAMED, features
from sottovoce.core.text.names import KINDS
from sottovoce.core.text.onnx_models import weights
from sottovoce.core.text.tagger import HASHES, FeatureSpec
from sottovoce.core.text.words import split
from sottovoce.models.context_finder.full import FullNetwork, kept_back, padded
from sottovoce.models.context_finder.network import (
    Network,
    Size,
    Vectors,
    read_vectors,
    restore,
    to_onnx,
)
from sottovoce.models.context_finder.sentences import (
    Sentences,
    is_tweet,
    ordinary_words,
    own_texts,
    read_marked,
    read_written,
    weakened,
)
from sottovoce.models.corpus import load_language
from sottovoce.models.encoder import ADAPTER
from sottovoce.models.names_data import (
    ANY,
    NONE,
    SLOTS,
    Lists,
    Marked,
    Mentions,
    changed,
    made_up,
    read_masc_and_web,
    renamed,
)
from sottovoce.models.tagger import NO_WORD, Progress, averaged, partial_loss

__all__ = [
    "FURTHER",
    "ContextFinderHyperparameters",
    "Taught",
    "apart",
    "fit",
    "opinions",
    "read_public",
    "train_context_finder",
    "write",
]

Taught = tuple[Marked, NDArray[np.float16]]
"""A sentence, and the teacher's probabilities: Floats2d (n_words, kinds). Zeros are no opinion."""

_PUBLIC: Final = (
    *("openstax-introduction-anthropology", "openstax-introduction-business"),
    *("openstax-principles-economics-bundle", "us-presidential", "novels-sample"),
    *("wikitext2-valid", "wikitext2-test"),
)
_LONGEST: Final = 60
"""Words of a passage."""
_TOKENS: Final = 2_048
"""Word pieces, with padding, that the teacher reads at once."""
_CLITICS: Final = load_language("en").clitics


def read_public(data: Path, words: int, random: Generator) -> list[Marked]:
    """Return passages of public text without marks, about ``words`` words of each source.

    Raises:
        FileNotFoundError: a text is missing.
    """
    found: list[Marked] = []
    for lines in _sources(data):
        seen = 0
        for at in random.permutation(len(lines)):
            pieces = split(lines[at], _CLITICS)
            start = int(random.integers(max(1, len(pieces) - _LONGEST)))
            passage = tuple(pieces[start : start + _LONGEST])
            if len(passage) > 2:
                found.append(Marked(passage, (ANY,) * len(passage), ""))
                seen += len(passage)
            if seen >= words:
                break
    return found


def apart(scores: Tensor, told: Tensor, allowed: Tensor, named: float) -> Tensor:
    """Return the mean divergence of scores from the teacher's probabilities.

    Marks win: where the teacher's likeliest kind is not allowed, its opinion does not count.

    Args:
        scores: (B, T, kinds).
        told: (B, T, kinds), the teacher's; zeros are no opinion.
        allowed: (B, T), see `Marked.allowed`.
        named: weight of words that the teacher takes for names.
    """
    best = told.argmax(-1)
    agreed = (told.sum(-1) > 0) & ((allowed >> best) & 1 == 1)
    weights = agreed * torch.where(best > 0, named, 1.0)
    each = nn.functional.kl_div(scores.log_softmax(-1), told, reduction="none").sum(-1)
    return (each * weights).sum() / weights.sum().clamp(min=1.0)


def _sources(data: Path) -> Iterator[list[str]]:
    for name in _PUBLIC:
        with gzip.open(data / "text" / f"{name}.txt.gz", "rt", encoding="utf-8") as file:
            # What wikitext left out is no word, and its signs stand apart.
            lines = (line.replace(" @-@ ", "-").replace(" @,@ ", ",") for line in file)
            yield [line for line in lines if "<unk>" not in line and line.strip()[:1] not in "="]
    with gzip.open(data / "movie_reviews" / "train.tsv.gz", "rt", encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        yield [sentence for row in rows for sentence in row["text"].split(" . ")]


def opinions(
    teacher: FullNetwork, sentences: Sequence[Marked], progress: Progress | None = None
) -> list[Taught]:
    """Return the sentences with the teacher's probabilities.

    A word has the probabilities of its piece that is likeliest a name. Words beyond the longest
    passage that the teacher reads have none.
    """
    reader = deepcopy(teacher).to(torch.bfloat16 if fast_bfloat16() else torch.float32).eval()
    read = [reader.pieces([word.text for word in sentence.words]) for sentence in sentences]
    found: list[NDArray[np.float16]] = [
        np.zeros((len(sentence.words), len(KINDS)), np.float16) for sentence in sentences
    ]
    order = sorted(range(len(read)), key=lambda at: len(read[at][0]))
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and len(read[order[end]][0]) * (end + 1 - start) <= _TOKENS:
            end += 1
        batch = order[start:end]
        with torch.inference_mode():
            scores = reader(*padded([read[at] for at in batch])).float()
            likely = scores.softmax(-1).numpy()
        for row, at in enumerate(batch):
            ids, _, first = read[at]
            known = [place for place, piece in enumerate(first) if piece]
            edges = [*(first[place] for place in known), len(ids) - 1]
            for place, begin, stop in zip(known, edges, edges[1:], strict=False):
                pieces = likely[row, begin:stop]
                found[at][place] = pieces[pieces[:, 1:4].sum(axis=1).argmax()]
        start = end
        if progress:
            progress("teacher's opinions", start, len(order))
    return list(zip(sentences, found, strict=True))


_BLOCK: Final = 128
_UNLISTED: Final = {"vocabulary": 0.1, "names": 0.3}
"""Share of the words of which training hides what the lists say, as many names are in none."""
_GAP: Final = " "


@dataclass(frozen=True)
class ContextFinderHyperparameters:
    """How to train; the defaults ship."""

    epochs: int = 2
    treebanks: float = 1.0
    """Share of the treebanks' documents in each epoch."""
    marked: int = 3
    """Times over the sentences marked with kinds in each epoch, with names drawn anew."""
    public: int = 0
    """Words of each public text that the teacher reads. With 0 there is no teacher."""
    requests: int = 20_000
    mentions: int = 10_000
    records: int = 5_000
    made_up: int = 8_000
    """Sentences of each kind of our own in each epoch."""
    teacher: float = 1.0
    """Weight in the loss of a teacher's opinion. The marks have 1."""
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
    """Seed of the hashes, which the network's rows depend on."""
    draws: int = 7
    """Seed of everything that is drawn."""
    size: Size = field(default_factory=Size)


FURTHER: Final = ContextFinderHyperparameters(
    epochs=2,
    treebanks=0.25,
    marked=2,
    public=120_000,
    requests=8_000,
    mentions=8_000,
    records=2_000,
    made_up=2_000,
    learning_rate=1.5e-3,
    memory=0.99,
)
"""The rounds that go on from the first one with a teacher."""
_DRAWS: Final = ((7, 8, 9), (10, 11), (12, 13))
"""Seeds of the networks that each round after the first one trains. The next round goes on from
their mean, and the last mean ships (Wortsman et al., 2022: it keeps what each does well). The last
round counts the network that it went on from as well."""


def train_context_finder(
    data: Path,
    out: Path,
    lists: Lists,
    backbone: LoadedBackbone,
    *,
    start: Path | None = None,
    rare: Sequence[str] = (),
    foreign: Sequence[Sequence[str]] = (),
    progress: Progress | None = None,
) -> int:
    """Train on `data` and write context_finder.onnx and context_finder.json.

    Args:
        data: the folder of marked and public text.
        out: the folder to write to.
        lists: names for made-up sentences.
        backbone: the language model of the vectors and of the teacher.
        start: a folder with a finder from which to train the last round; without one, all rounds
            are trained.
        rare: more words in small letters.
        foreign: lists of words of other languages.
        progress: called now and then.

    Returns:
        The size of the network in bytes.

    Raises:
        InvalidInput: one of the data sets is missing.
    """
    treebanks, read = read_masc_and_web(data), read_marked(data)
    kept = set(kept_back(read)[::2])
    marked = [sentence for at, sentence in enumerate(read) if at not in kept]
    marked += read_written()
    learn = partial(fit, treebanks, marked, lists, progress=progress, rare=rare, foreign=foreign)
    if start:
        network = Network(FURTHER.size)
        restore(network, weights((start / "context_finder.onnx").read_bytes()))
    else:
        vectors = read_vectors(backbone, [*treebanks, *marked], lists, own_texts())
        network = learn(vectors, ContextFinderHyperparameters())
    teacher = FullNetwork(backbone)
    teacher.restore(ADAPTER)
    random = np.random.default_rng(FURTHER.seed)
    mentions = _mentions(treebanks, lists, random)
    tweets = [sentence for sentence in marked if is_tweet(sentence)]
    texts = [
        *(_renamed(sentence, mentions, random) for sentence in tweets),
        *read_public(data, FURTHER.public, random),
    ]
    taught = opinions(teacher, texts, progress)
    for seeds in _DRAWS[-1:] if start else _DRAWS:
        further = []
        for draws in seeds:
            half = np.random.default_rng(draws).random(len(taught)) < 0.5
            chosen = [each for at, each in enumerate(taught) if at < len(tweets) or half[at]]
            recipe = replace(FURTHER, draws=draws)
            further.append(learn(None, recipe, start=network, taught=chosen))
        network = _mean([*further, network] if seeds == _DRAWS[-1] else further)
    return write(network, out, FURTHER)


def fit(
    treebanks: Sequence[Marked],
    marked: Sequence[Marked],
    lists: Lists,
    vectors: Vectors | None,
    recipe: ContextFinderHyperparameters,
    progress: Progress | None = None,
    rare: Sequence[str] = (),
    foreign: Sequence[Sequence[str]] = (),
    taught: Sequence[Taught] = (),
    start: Network | None = None,
) -> Network:
    """Return a trained network: the average of its last weights.

    Args:
        treebanks: sentences with proper nouns without kinds.
        marked: sentences with kinds.
        lists: names for made-up sentences.
        vectors: what the features learn first, if anything.
        recipe: how to train.
        progress: called now and then.
        rare: more words in small letters.
        foreign: lists of words of other languages.
        taught: sentences with a teacher's opinions.
        start: the network to go on with.
    """
    random = np.random.default_rng(recipe.draws)
    words = ordinary_words(treebanks)
    mentions = _mentions(treebanks, lists, random)
    sentences = Sentences(mentions, words, random, rare, foreign)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.draws)
        network = deepcopy(start) if start else Network(recipe.size)
        if vectors is not None:
            _learn_vectors(network, vectors, recipe, random, progress)
        losses = _losses(network, treebanks, marked, taught, mentions, sentences, recipe, random)
        return averaged(network, losses, recipe.learning_rate, recipe.memory, progress)


def _mentions(treebanks: Sequence[Marked], lists: Lists, random: Generator) -> Mentions:
    words = ordinary_words(treebanks)
    return Mentions(lists, set(words).__contains__, [w for w in words if len(w) > 3], random)


def _mean(networks: Sequence[Network]) -> Network:
    """Return a network with the mean of the networks' weights."""
    found = deepcopy(networks[0])
    with torch.no_grad():
        for own, *others in zip(*(each.parameters() for each in (found, *networks)), strict=True):
            own.copy_(torch.stack(others).mean(0))
    return found


def _renamed(sentence: Marked, mentions: Mentions, random: Generator) -> Marked:
    return renamed(sentence, random, lambda kind: mentions.draw(SLOTS[kind]))


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
    """Teach the features a language model's vectors of single words, in any letter case."""
    rows = FeatureSpec(recipe.size.rows, recipe.seed, features).rows_of(known.words)
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
    taught: Sequence[Taught],
    mentions: Mentions,
    sentences: Sentences,
    recipe: ContextFinderHyperparameters,
    random: Generator,
) -> Iterator[tuple[float, Tensor]]:
    """Yield the share of the training that is done, and the loss on the next blocks."""
    spec = FeatureSpec(recipe.size.rows, recipe.seed, features)
    for epoch in range(recipe.epochs):
        own = [
            *(sentences.request() for _ in range(recipe.requests)),
            *(sentences.mention() for _ in range(recipe.mentions)),
            *(sentences.record() for _ in range(recipe.records)),
            *(made_up(mentions, f"made up {i // 3}") for i in range(recipe.made_up)),
        ]
        some = {
            document
            for document in sorted({sentence.document for sentence in treebanks})
            if random.random() < recipe.treebanks
        }
        texts = [
            *(changed(sentence, random) for sentence in treebanks if sentence.document in some),
            *(
                changed(_renamed(sentence, mentions, random), random)
                for sentence in [*marked] * recipe.marked
            ),
            *(weakened(changed(sentence, random)) for sentence in own),
        ]
        read = [
            *((text, np.zeros((len(text.words), len(KINDS)), np.float16)) for text in texts),
            *((changed(sentence, random), told) for sentence, told in taught),
        ]
        rows, allowed, told = _blocks(read, spec, recipe.size, random)
        steps = math.ceil(len(rows) / recipe.batch)
        for step in range(steps):
            chosen = slice(step * recipe.batch, (step + 1) * recipe.batch)
            inputs, targets = torch.from_numpy(rows[chosen]), torch.from_numpy(allowed[chosen])
            scores = network(inputs, (targets != NO_WORD).float())
            heavy = torch.where(targets & NONE == 0, recipe.named, 1.0)
            opinion = torch.from_numpy(told[chosen]).float()
            loss = partial_loss(scores, targets, heavy)
            loss = loss + recipe.teacher * apart(scores, opinion, targets, recipe.named)
            yield (epoch + step / steps) / recipe.epochs, loss


def _blocks(
    sentences: Sequence[Taught], spec: FeatureSpec, size: Size, random: Generator
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float16]]:
    """Return passages in random order, empty places between, cut into blocks of equal length."""
    texts = list(_passages(sentences, random))
    words: list[str] = []
    allowed: list[int] = []
    told: list[NDArray[np.float16]] = []

    def leave_empty(places: int) -> None:
        words.extend([_GAP] * places)
        allowed.extend([NO_WORD] * places)
        told.append(np.zeros((places, len(KINDS)), np.float16))

    for index in random.permutation(len(texts)):
        for place, (sentence, opinion) in enumerate(texts[index]):
            if place and random.random() < 0.3:
                words.append(BREAK)
                allowed.append(NONE)
                told.append(np.zeros((1, len(KINDS)), np.float16))
            words += [word.text for word in sentence.words]
            allowed += sentence.allowed
            told.append(opinion[: len(sentence.words)])
        leave_empty(max(size.distances))
    leave_empty(-len(words) % _BLOCK)
    rows = spec.rows_of(words)
    for feature, share in _UNLISTED.items():
        at = FEATURES.index(feature)
        hidden = random.random(len(rows)) < share
        rows[hidden, at * HASHES : (at + 1) * HASHES] = spec.rows_of_feature(at, ["0"])
    return (
        rows.reshape(-1, _BLOCK, rows.shape[1]),
        np.array(allowed).reshape(-1, _BLOCK),
        np.concatenate(told).reshape(-1, _BLOCK, len(KINDS)),
    )


def _passages(sentences: Sequence[Taught], random: Generator) -> Iterator[Sequence[Taught]]:
    """Yield runs of one to four consecutive sentences of one document."""
    start = 0
    while start < len(sentences):
        end = start + int(random.integers(1, 5))
        document = sentences[start][0].document
        chosen = [
            each for each in sentences[start:end] if document and each[0].document == document
        ]
        yield chosen or [sentences[start]]
        start += max(len(chosen), 1)
