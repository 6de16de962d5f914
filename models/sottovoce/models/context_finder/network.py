"""The network of the finder that reads the sentence, as it trains and as it ships.

Hashed features describe each word's form and the public lists that contain the word. The network
looks them up, sums and mixes them. Residual layers then read the words at growing distances on both
sides.

The features first learn a language model's vectors of single words, see `read_vectors`. The marked
text is small. The language model has read far more, and places given names, towns, verbs and terms
apart. The language model itself does not ship, only the hashed features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sottovoce.cloud.models.backbone import LoadedBackbone, input_embeddings
from sottovoce.core.text.names import KINDS, linear, scaled
from sottovoce.core.text.tagger import HASHES
from sottovoce.models.names_data import Lists, Marked
from sottovoce.models.tagger import Forms, Graph

__all__ = [
    "MOST",
    "Network",
    "Size",
    "Vectors",
    "read_vectors",
    "restore",
    "to_onnx",
]


@dataclass(frozen=True)
class Size:
    """Dimensions of the network; the defaults ship."""

    rows: tuple[int, ...] = (32768, 512, 128, 4096, 128, 1024, 4096, 6144, 512, 512)
    """Rows of the table for each of `FEATURES`."""
    feature_width: int = 36
    width: int = 128
    distances: tuple[int, ...] = (1, 1, 2, 4, 8)
    """The distance between the three words that each layer reads."""

    @property
    def reach(self) -> int:
        """How many words either side may matter."""
        return sum(self.distances)


class Network(nn.Module):
    """Scores of all kinds for words in context."""

    def __init__(self, size: Size, *, dropout: float = 0.15, unknown: float = 0.1) -> None:
        super().__init__()
        self.size = size
        self.forms = Forms(size.rows, size.feature_width, size.width, dropout, unknown)
        self.layers = nn.ModuleList(nn.Linear(3 * size.width, size.width) for _ in size.distances)
        self.norms = nn.ModuleList(nn.LayerNorm(size.width) for _ in size.distances)
        self.out = nn.Linear(size.width, len(KINDS))
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor, present: Tensor) -> Tensor:
        """Return scores (B, T, kinds) of the words that are present.

        Passages in one row do not influence each other if the number of empty places between them
        is at least the longest of the distances.

        Args:
            rows: (B, T, features * HASHES) of the table.
            present: (B, T), 1 where there is a word.
        """
        present = present.unsqueeze(-1)
        state = self.forms(rows) * present  # (B, T, width)
        for distance, layer, norm in zip(self.size.distances, self.layers, self.norms, strict=True):
            padded = nn.functional.pad(state, (0, 0, distance, distance))
            three = [padded[:, : -2 * distance], state, padded[:, 2 * distance :]]
            change = torch.relu(norm(layer(torch.cat(three, -1))))
            state = (state + self.dropout(change)) * present
        scores: Tensor = self.out(state)
        return scores


def restore(network: Network, stored: Mapping[str, NDArray[Any]]) -> None:
    """Fill the network with the constants of a graph that `to_onnx` wrote.

    Raises:
        ValueError, KeyError: the graph is of another size.
    """
    table = scaled(stored["table.whole"], stored["table.scale"])
    values = [(network.forms.table.weight, table)]
    layers = {f"layer{at}": layer for at, layer in enumerate(network.layers)}
    for name, layer in ({"mix": network.forms.mix, "out": network.out} | layers).items():
        assert isinstance(layer, nn.Linear)
        weight, bias = linear(stored, name)
        values += [(layer.weight, weight.T), (layer.bias, bias)]
    norms = {f"norm{at}": norm for at, norm in enumerate(network.norms)}
    for name, norm in ({"mix_norm": network.forms.norm} | norms).items():
        assert isinstance(norm, nn.LayerNorm)
        values += [(norm.weight, stored[f"{name}.gain"]), (norm.bias, stored[f"{name}.shift"])]
    with torch.no_grad():
        for parameter, value in values:
            if tuple(parameter.shape) != value.shape:
                raise ValueError(f"{value.shape} instead of {tuple(parameter.shape)}")
            parameter.copy_(torch.from_numpy(np.array(value, np.float32)))


def to_onnx(network: Network) -> bytes:
    """Return the graph: `rows` int32 (n, features * HASHES) -> `logits` float32 (n, kinds)."""
    graph = Graph()
    state = graph.forms(network.forms)
    for i, (distance, layer, norm) in enumerate(
        zip(network.size.distances, network.layers, network.norms, strict=True)
    ):
        around = graph.around(i, state, distance)
        change = graph.norm(f"norm{i}", norm, graph.linear(f"layer{i}", layer, around))
        state = graph.add("Add", state, change, out=f"state{i}")
    graph.add("Identity", graph.linear("out", network.out, state), out="logits")
    inputs = {"rows": (len(network.size.rows) * HASHES,)}
    return graph.model("context_finder", inputs, len(KINDS))


MOST: Final = 45_000
"""Words that vectors are read for."""
_LAYERS: Final = 3
"""Layers of the model that a word alone goes through."""
_WIDTH: Final = 64
"""Principal components of the input embeddings, and of the output of the layers."""
_LONGEST: Final = 30
_BATCH: Final = 256


@dataclass(frozen=True)
class Vectors:
    """Vectors of single words."""

    words: Sequence[str]
    """In small letters."""
    vectors: NDArray[np.float32]
    """Floats2d (n, width)."""


def read_vectors(
    backbone: LoadedBackbone,
    sentences: Iterable[Marked],
    lists: Lists,
    own: Iterable[str],
    most: int = MOST,
) -> Vectors:
    """Return vectors of the commonest words.

    Args:
        backbone: the language model.
        sentences: text whose words are counted.
        lists: names, which count too.
        own: texts of our own, which count too.
        most: the number of words.
    """
    count = Counter(word.text.lower() for sentence in sentences for word in sentence.words)
    vocabulary = (piece for piece in backbone.tokenizer.get_vocab() if piece.isalpha())
    count.update(dict.fromkeys(vocabulary, 3))
    for name in (*lists.first, *lists.last, *lists.cities):
        count.update(name.lower().split())
    for text in own:
        count.update(word.strip(".,:;!?()") for word in text.lower().split())
    words = [
        word
        for word, _ in sorted(count.items(), key=lambda each: (-each[1], each[0]))
        if len(word) < _LONGEST and any(map(str.isalpha, word))
    ][:most]
    ids: list[list[int]] = backbone.tokenizer(words)["input_ids"]
    table = input_embeddings(backbone)
    static = np.stack([table[each[1:-1]].mean(axis=0) for each in ids])
    both = [_components(static), _components(_outputs(backbone, ids))]
    return Vectors(words, np.concatenate(both, axis=1))


def _outputs(backbone: LoadedBackbone, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    found = np.zeros((len(ids), backbone.hidden_size), np.float32)
    order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
    for start in range(0, len(order), _BATCH):
        chosen = order[start : start + _BATCH]
        inputs = torch.zeros(len(chosen), len(ids[chosen[-1]]), dtype=torch.long)
        for row, place in enumerate(chosen):
            inputs[row, : len(ids[place])] = torch.tensor(ids[place])
        mask = (inputs != 0).long()
        with torch.inference_mode():
            states = backbone.model(
                input_ids=inputs, attention_mask=mask, output_hidden_states=True
            ).hidden_states[_LAYERS]
        states = states * mask[..., None]
        found[chosen] = (states.sum(1) / mask.sum(1, keepdim=True)).numpy()
    return found


def _components(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the principal components, with more weight on the first components."""
    centred = rows - rows.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    found = centred @ directions[:, ::-1][:, :_WIDTH]
    found *= np.linspace(1.2, 0.5, _WIDTH) / found.std(axis=0)
    return np.asarray(found, np.float32)
