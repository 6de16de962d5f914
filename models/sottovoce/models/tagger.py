"""Train the tagger that ships, from the treebanks to the two files in a bundle.

Read it top to bottom: the training loop, the network, its ONNX graph, then the steps of
`train_tagger`. A device runs the written file, so all steps after the training use this file.

The graph is written node by node. Matrices are bytes with a scale a row, and are turned back into
floats when a device opens the graph.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numpy as np
import onnx
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sottovoce.core.text.tagger import (
    FEATURES,
    FORMAT,
    HASHES,
    UPOS,
    FeatureSpec,
    OnnxTagger,
    Tagger,
)
from sottovoce.models.corpus import Sentence, passages, read_conllu, read_masc

Progress = Callable[[str, int, int], None]
"""Called with the stage, the amount done and the total."""

NO_WORD: Final = 0
"""The set of allowed answers at an empty place, as bits: the empty set."""

Net = TypeVar("Net", bound=nn.Module)


def averaged(
    network: Net,
    losses: Iterable[tuple[float, Tensor]],
    learning_rate: float,
    memory: float,
    progress: Progress | None = None,
) -> Net:
    """Train `network` by AdamW, a step for each loss; return the running average of weights.

    Args:
        losses: the share of training done and the loss of the next step, computed on demand.
        learning_rate: the highest, see `pace`.
        memory: share of the average that each step keeps.
        progress: called every twenty steps.
    """
    network.train()
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(memory))  # type: ignore[no-untyped-call]
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    for step, (done, loss) in enumerate(losses):
        optimizer.param_groups[0]["lr"] = learning_rate * pace(done)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        average.update_parameters(network)
        if progress and step % 20 == 0:
            progress(f"loss {loss.item():.3f}", int(done * 1_000), 1_000)
    return cast(Net, average.module).eval()


def pace(done: float) -> float:
    """Return the share of the learning rate after a share `done` of the training."""
    return min(done / 0.05, 1.0) * (1 + math.cos(math.pi * done)) / 2 + 0.001


def partial_loss(scores: Tensor, allowed: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the mean of -log P(an answer of the allowed set).

    Args:
        scores: (B, T, answers).
        allowed: (B, T) sets as bits; `NO_WORD` at empty places.
        weights: (B, T) of the words in the mean; equal if not given.
    """
    bits = torch.arange(scores.shape[-1], device=scores.device)
    possible = (allowed.unsqueeze(-1) >> bits) & 1 == 1  # (B, T, answers)
    present = allowed != NO_WORD
    within = scores.masked_fill(~possible, float("-inf"))[present].logsumexp(-1)
    losses = scores[present].logsumexp(-1) - within
    if weights is None:
        return losses.mean()
    return (losses * weights[present]).sum() / weights[present].sum()


_NORM: Final = FEATURES.index("norm")


@dataclass(frozen=True)
class Size:
    """Dimensions of the network. The defaults ship."""

    rows: tuple[int, ...] = (6144, 512, 128, 2048, 128, 768, 2048, 3072)
    """Rows of the table for each of `FEATURES`."""
    feature_width: int = 48
    width: int = 128
    depth: int = 4
    """Layers, and so the words on either side that a tag depends on."""


class Forms(nn.Module):
    """Vectors of words by their forms: hashed features, looked up, summed and mixed.

    Args:
        rows: of the table, for each of `FEATURES`.
        dropout: share of the features, and of the outputs, that training leaves out.
        unknown: share of words without their norm in training, as rare words are met.
    """

    def __init__(
        self, rows: Sequence[int], feature_width: int, width: int, dropout: float, unknown: float
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(sum(rows), feature_width)
        nn.init.normal_(self.table.weight, std=0.3)
        self.mix = nn.Linear(len(rows) * feature_width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.unknown = unknown

    def forward(self, rows: Tensor) -> Tensor:
        """`rows` (B, T, features * HASHES) -> (B, T, width)."""
        looked_up = self.table(rows).view(*rows.shape[:2], -1, HASHES, self.table.embedding_dim)
        features = looked_up.sum(3)  # (B, T, F, feature_width)
        if self.training:
            known = torch.ones_like(features[:, :, :, :1])
            known[:, :, _NORM] -= (torch.rand_like(known[:, :, _NORM]) < self.unknown).float()
            features = features * known
        mixed = self.norm(self.mix(self.dropout(features.flatten(2))))
        out: Tensor = self.dropout(torch.relu(mixed))
        return out


class Network(nn.Module):
    """Scores of all tags for words in context."""

    def __init__(self, size: Size, *, dropout: float = 0.25, unknown: float = 0.1) -> None:
        super().__init__()
        self.size = size
        self.forms = Forms(size.rows, size.feature_width, size.width, dropout, unknown)
        self.layers = nn.ModuleList(
            nn.Linear(3 * size.width, size.width) for _ in range(size.depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(size.width) for _ in range(size.depth))
        self.out = nn.Linear(size.width, len(UPOS))
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor, present: Tensor) -> Tensor:
        """Return scores (B, T, tags) of `rows` (B, T, features * HASHES) at `present` (B, T).

        An empty place hides everything beyond it, so passages in one row stay apart.
        """
        present = present.unsqueeze(-1)
        state = self.forms(rows) * present  # (B, T, width)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            padded = nn.functional.pad(state, (0, 0, 1, 1))
            around = torch.cat([padded[:, :-2], state, padded[:, 2:]], -1)  # (B, T, 3 * width)
            state = (state + self.dropout(torch.relu(norm(layer(around))))) * present
        scores: Tensor = self.out(state)
        return scores


_OPSET = 18
_IR = 9  # onnxruntime 1.20 reads it


class Graph:
    """Nodes and constants of a graph while it is written."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a tensor to the file."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, out: str, **settings: Any) -> str:
        """Add a node with one output."""
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=out, **settings))
        return out

    def weight(self, name: str, rows: Tensor, *, transposed: bool = False) -> str:
        """Add a matrix of bytes with a scale a row, turned into floats at opening."""
        whole, scale = _rounded(_array(rows))
        stored = self.constant(f"{name}.whole", whole.T if transposed else whole)
        scales = self.constant(f"{name}.scale", scale if transposed else scale[:, None])
        as_float = self.add("Cast", stored, out=f"{name}.float", to=TensorProto.FLOAT)
        return self.add("Mul", as_float, scales, out=f"{name}.scaled")

    def lookup(self, name: str, rows: Tensor, ids: str) -> str:
        """Look up rows of a table of bytes. Only these rows are turned into floats."""
        whole, scale = _rounded(_array(rows))
        found = self.add("Gather", self.constant(f"{name}.whole", whole), ids, out=f"{name}.found")
        scales = self.constant(f"{name}.scale", scale[:, None])
        by = self.add("Gather", scales, ids, out=f"{name}.by")
        as_float = self.add("Cast", found, out=f"{name}.float", to=TensorProto.FLOAT)
        return self.add("Mul", as_float, by, out=f"{name}.scaled")

    def forms(self, forms: Forms) -> str:
        """Add the look-up, sum and mix of the input `rows`: (n, width)."""
        width = forms.table.embedding_dim
        n_features = forms.mix.in_features // width
        looked_up = self.lookup("table", forms.table.weight, "rows")  # (n, F * HASHES, width)
        by_hash = self.constant("by_hash", np.array([-1, n_features, HASHES * width]))
        flat = self.constant("flat", np.array([-1, n_features * width]))
        apart = self.add("Reshape", looked_up, by_hash, out="apart")
        hashes = [f"hash{i}" for i in range(HASHES)]
        self.nodes.append(helper.make_node("Split", [apart], hashes, axis=2, num_outputs=HASHES))
        summed = self.add("Sum", *hashes, out="summed")
        features = self.add("Reshape", summed, flat, out="features")
        return self.norm("mix_norm", forms.norm, self.linear("mix", forms.mix, features))

    def around(self, number: int, state: str, distance: int = 1) -> str:
        """Join each row with the rows `distance` before and after it, zeros beyond the ends."""
        pad = self.constant(f"pad{number}", np.array([distance, 0, distance, 0]))
        padded = self.add("Pad", state, pad, out=f"padded{number}")
        rows = self.constant(f"rows{number}", np.array([0]))
        to = self.constant(f"to{number}", np.array([-2 * distance]))
        since = self.constant(f"since{number}", np.array([2 * distance]))
        end = self.constant(f"end{number}", np.array([np.iinfo(np.int64).max]))
        left = self.add("Slice", padded, rows, to, rows, out=f"left{number}")
        right = self.add("Slice", padded, since, end, rows, out=f"right{number}")
        return self.add("Concat", left, state, right, out=f"around{number}", axis=1)

    def linear(self, name: str, layer: nn.Module, state: str) -> str:
        """Add a matrix and its bias."""
        assert isinstance(layer, nn.Linear)
        weight = self.weight(name, layer.weight, transposed=True)
        product = self.add("MatMul", state, weight, out=f"{name}.product")
        bias = self.constant(f"{name}.bias", _array(layer.bias))
        return self.add("Add", product, bias, out=f"{name}.sum")

    def norm(self, name: str, layer: nn.Module, state: str) -> str:
        """Add a layer normalisation and a ReLU."""
        assert isinstance(layer, nn.LayerNorm)
        scaled = self.add(
            "LayerNormalization",
            state,
            self.constant(f"{name}.gain", _array(layer.weight)),
            self.constant(f"{name}.shift", _array(layer.bias)),
            out=f"{name}.normed",
            epsilon=layer.eps,
        )
        return self.add("Relu", scaled, out=f"{name}.relu")

    def model(self, name: str, inputs: Mapping[str, tuple[int, ...]], n_scores: int) -> bytes:
        """Return the file, with whole numbers as inputs and `logits` (n, n_scores) as output."""
        model = helper.make_model(
            helper.make_graph(
                self.nodes,
                name,
                [
                    helper.make_tensor_value_info(name, TensorProto.INT32, ["n", *row])
                    for name, row in inputs.items()
                ],
                [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", n_scores])],
                self.constants,
            ),
            producer_name="sottovoce",
            ir_version=_IR,
            opset_imports=[helper.make_opsetid("", _OPSET)],
        )
        onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())


def to_onnx(network: Network) -> bytes:
    """Return the graph: `rows` int32 (n, features * HASHES) -> `logits` float32 (n, tags)."""
    graph = Graph()
    state = graph.forms(network.forms)
    for i, (layer, norm) in enumerate(zip(network.layers, network.norms, strict=True)):
        change = graph.norm(
            f"norm{i}", norm, graph.linear(f"layer{i}", layer, graph.around(i, state))
        )
        state = graph.add("Add", state, change, out=f"state{i}")
    graph.add("Identity", graph.linear("out", network.out, state), out="logits")
    inputs = {"rows": (len(network.size.rows) * HASHES,)}
    return graph.model("tagger", inputs, len(UPOS))


def _array(weight: Tensor) -> NDArray[np.float32]:
    return weight.detach().cpu().numpy().astype(np.float32)


def _rounded(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    scale = np.maximum(np.abs(weight).max(axis=1), 1e-12) / 127
    return np.rint(weight / scale[:, None]).astype(np.int8), scale.astype(np.float32)


SURE: Final = 0.7
"""Confidence from which the device usually trusts a tag."""
_BLOCK: Final = 128


@dataclass(frozen=True)
class TaggerHyperparameters:
    """Settings of the training. The defaults ship."""

    epochs: int = 5
    """Passes over both treebanks."""
    last_epochs: int = 8
    """Passes over the treebank with universal tags only, afterwards."""
    batch: int = 16
    """Blocks of 128 words a step."""
    learning_rate: float = 3e-3
    memory: float = 0.995
    """Share of the running average of the weights that each step keeps."""
    seed: int = 7
    size: Size = field(default_factory=Size)


@dataclass(frozen=True)
class Measured:
    """Figures of the written tagger on sentences as the treebank cuts them."""

    accuracy: float
    """Share of words with the right tag."""
    calibration_error: float
    """Mean distance of confidence and accuracy over ten bins, weighted by words."""
    sure: float
    """Share of words with a confidence of .7 and more."""
    sure_accuracy: float
    """Accuracy on these words; 0 if there are none."""
    words: int


def train_tagger(
    data: Path,
    out: Path,
    *,
    recipe: TaggerHyperparameters | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Train on `data`/ud_ewt and `data`/pos_masc; write `out`/tagger.onnx and tagger.json.

    Returns the figures on the test part of ud_ewt. It takes about ten minutes on two cores. The
    same settings, data and versions give the same file on one machine.

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
    """Return a network trained on each epoch's sentences, the average of its last weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = Network(recipe.size)
        losses = _losses(network, epochs, recipe)
        return averaged(network, losses, recipe.learning_rate, recipe.memory, progress)


def _losses(
    network: Network, epochs: Sequence[Sequence[Sentence]], recipe: TaggerHyperparameters
) -> Iterator[tuple[float, Tensor]]:
    """Yield the share of words done, and the loss on the next blocks."""
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
    """Yield blocks of equal length: passages in random order, an empty place between."""
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
    """Write both files to `out`, with the best temperature for `development`."""
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
    """Return the divisor of scores with the least -log P(right tag) on held-out sentences."""
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
    """Measure `tagger` on whole documents of sentences with one tag a word."""
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


def _documents(sentences: Sequence[Sentence]) -> Iterator[tuple[str, list[str], list[int]]]:
    for document, group in itertools.groupby(sentences, key=lambda sentence: sentence.document):
        found = list(group)
        words = [word for sentence in found for word in sentence.words]
        yield document, words, [tag for sentence in found for tag in sentence.allowed]
