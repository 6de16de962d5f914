"""The network of the finder that reads the sentence, as it trains and as it ships.

Hashed features of each word's form, and of the public lists that hold it, are looked up, summed and
mixed. Residual layers then read the words at growing distances on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sottovoce.core.text.names import KINDS, linear, scaled
from sottovoce.core.text.tagger import HASHES
from sottovoce.models.tagger import Forms, Graph

__all__ = ["Network", "Size", "restore", "to_onnx"]


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

        Passages in one row stay apart if as many empty places lie between them as the longest of
        the distances.

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
