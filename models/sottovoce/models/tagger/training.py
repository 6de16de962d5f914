"""Trains the tagger that ships, from the treebanks to the two files a bundle holds.

Read it top to bottom: read sentences, train, write the graph, fit the temperature, measure. What it
writes is what the device runs, so everything after the training is measured on the written file.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from sottovoce.core.text.tagger import (
    FEATURES,
    FORMAT,
    HASHES,
    UPOS,
    FeatureSpec,
    OnnxTagger,
    Tagger,
)
from sottovoce.models.corpus.augment import passages
from sottovoce.models.corpus.treebanks import Sentence, read_conllu, read_masc
from sottovoce.models.tagger.learning import NO_WORD, Progress, averaged, partial_loss
from sottovoce.models.tagger.network import Network, Size
from sottovoce.models.tagger.onnx_graph import to_onnx

SURE: Final = 0.7
"""Confidence from which the device trusts a tag, as a rule."""
_BLOCK: Final = 128


@dataclass(frozen=True)
class TaggerHyperparameters:
    """How to train; the defaults ship."""

    epochs: int = 5
    """Times over both treebanks."""
    last_epochs: int = 8
    """Times over the treebank with universal tags alone, after that."""
    batch: int = 16
    """Blocks of 128 words a step."""
    learning_rate: float = 3e-3
    memory: float = 0.995
    """Share of the running average of the weights that each step keeps."""
    seed: int = 7
    size: Size = field(default_factory=Size)


@dataclass(frozen=True)
class Measured:
    """Figures of the written tagger on sentences with the words as the treebank cuts them."""

    accuracy: float
    """Share of words with the right tag."""
    calibration_error: float
    """Mean distance of confidence and accuracy over ten bins, weighted by words."""
    sure: float
    """Share of words with a confidence of .7 and more."""
    sure_accuracy: float
    """Accuracy on those; 0 where there are none."""
    words: int


def train_tagger(
    data: Path,
    out: Path,
    *,
    recipe: TaggerHyperparameters | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Trains on `data`/ud_ewt and `data`/pos_masc, writes `out`/tagger.onnx and tagger.json.

    Returns the figures on the test part of ud_ewt. Takes about ten minutes on two cores; the same
    recipe, data and versions give the same file on one machine.

    Raises:
        InvalidInput: a treebank is missing.
    """
    recipe = recipe or TaggerHyperparameters()
    web = read_conllu(data / "ud_ewt" / "train.conllu.gz")
    masc = read_masc(data / "pos_masc" / "all.jsonl.gz", data / "ud_ewt" / "train.conllu.gz")
    development = read_conllu(data / "ud_ewt" / "dev.conllu.gz")
    epochs = [[*web, *masc]] * recipe.epochs + [web] * recipe.last_epochs
    network = fit(epochs, recipe, progress)
    tagger = write(network, development, out, recipe)
    return measure(tagger, read_conllu(data / "ud_ewt" / "test.conllu.gz"))


def fit(
    epochs: Sequence[Sequence[Sentence]],
    recipe: TaggerHyperparameters,
    progress: Progress | None = None,
) -> Network:
    """A network trained on the sentences of each epoch in turn: the average of its last weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = Network(recipe.size)
        losses = _losses(network, epochs, recipe)
        return averaged(network, losses, recipe.learning_rate, recipe.memory, progress)


def _losses(
    network: Network, epochs: Sequence[Sequence[Sentence]], recipe: TaggerHyperparameters
) -> Iterator[tuple[float, Tensor]]:
    """The share of all words that has gone by, and the loss on the next blocks."""
    random = np.random.default_rng(recipe.seed)
    spec = FeatureSpec(recipe.size.rows, recipe.seed)
    total = sum(len(sentence.words) for sentences in epochs for sentence in sentences)
    seen = 0
    for sentences in epochs:
        rows, allowed = _blocks(list(passages(sentences, random)), spec, random)
        words = sum(len(sentence.words) for sentence in sentences)
        steps = math.ceil(len(rows) / recipe.batch)
        for step in range(steps):
            chosen = slice(step * recipe.batch, (step + 1) * recipe.batch)
            # (B, T, features * HASHES), (B, T)
            inputs, targets = torch.from_numpy(rows[chosen]), torch.from_numpy(allowed[chosen])
            scores = network(inputs, (targets != NO_WORD).float())
            yield (seen + words * step / steps) / total, partial_loss(scores, targets)
        seen += words


def _blocks(
    texts: Sequence[Sentence], spec: FeatureSpec, random: Generator
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Passages in random order, an empty place between, cut into blocks of equal length."""
    order = random.permutation(len(texts))
    words: list[str] = []
    allowed: list[int] = []
    for index in order:
        words += [*texts[index].words, ""]
        allowed += [*texts[index].allowed, NO_WORD]
    missing = -len(words) % _BLOCK
    words += [""] * missing
    allowed += [NO_WORD] * missing
    rows = spec.rows_of(words)
    return rows.reshape(-1, _BLOCK, rows.shape[1]), np.array(allowed).reshape(-1, _BLOCK)


def write(
    network: Network, development: Sequence[Sentence], out: Path, recipe: TaggerHyperparameters
) -> OnnxTagger:
    """Writes both files to `out`, with the temperature that suits `development` best."""
    out.mkdir(parents=True, exist_ok=True)
    model = to_onnx(network)
    (out / "tagger.onnx").write_bytes(model)
    description = {
        "format": FORMAT,
        "tagset": UPOS,
        "features": FEATURES,
        "hashes": HASHES,
        "rows": recipe.size.rows,
        "seed": recipe.seed,
        "reach": recipe.size.depth,
        "temperature": _temperature(
            network, development, FeatureSpec(recipe.size.rows, recipe.seed)
        ),
        "sha256": hashlib.sha256(model).hexdigest(),
        "recipe": asdict(recipe),
    }
    text = json.dumps(description, indent=2) + "\n"
    (out / "tagger.json").write_text(text, encoding="utf-8")
    return OnnxTagger.load(out)


def _temperature(network: Network, sentences: Sequence[Sentence], spec: FeatureSpec) -> float:
    """Divides the scores so that -log P(right tag) is least on sentences not trained on."""
    scores, allowed = [], []
    for _, words, tags in _documents(sentences):
        rows = torch.from_numpy(spec.rows_of(words)).unsqueeze(0)
        with torch.inference_mode():
            scores.append(network(rows, torch.ones(rows.shape[:2])))
        allowed.append(torch.tensor([tags]))
    together, targets = torch.cat(scores, 1), torch.cat(allowed, 1)
    candidates = np.round(np.arange(0.5, 3.01, 0.02), 2).tolist()
    return float(min(candidates, key=lambda heat: float(partial_loss(together / heat, targets))))


def measure(tagger: Tagger, sentences: Sequence[Sentence]) -> Measured:
    """Figures of `tagger`, which sees whole documents, on sentences with one tag a word."""
    right, confidence = [], []
    for _, words, allowed in _documents(sentences):
        tags = tagger.tag(words)
        right.append(1 << tags.ids.astype(np.int64) == np.array(allowed))
        confidence.append(tags.confidence)
    correct, probability = np.concatenate(right), np.concatenate(confidence)
    bins = np.minimum((probability * 10).astype(int), 9)
    gaps = [
        abs(correct[bins == b].mean() - probability[bins == b].mean()) * (bins == b).mean()
        for b in np.unique(bins)
    ]
    sure = probability >= SURE
    return Measured(
        accuracy=float(correct.mean()),
        calibration_error=float(sum(gaps)),
        sure=float(sure.mean()),
        sure_accuracy=float(correct[sure].mean()) if sure.any() else 0.0,
        words=len(correct),
    )


def _documents(
    sentences: Sequence[Sentence],
) -> Iterator[tuple[str, list[str], list[int]]]:
    for document, group in itertools.groupby(sentences, key=lambda sentence: sentence.document):
        found = list(group)
        words = [word for sentence in found for word in sentence.words]
        yield document, words, [tag for sentence in found for tag in sentence.allowed]
