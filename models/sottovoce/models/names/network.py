"""The name finder's network, in the form that trains and in the form that ships.

Two streams meet in it. One sees hashed features of the word itself, the other the looks of the
words around it: three layers, one, two and three words apart, so six words either side. Only where
they meet is decided what the word names. With `Size.neighbours` set to "words" the second stream
sees the neighbours in full; nothing ships with it, it says what the restriction costs.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from sottovoce.core.text.names import KINDS
from sottovoce.core.text.tagger import HASHES
from sottovoce.core.text.word_shapes import LOOKS
from sottovoce.models.tagger.network import Forms
from sottovoce.models.tagger.onnx_graph import Graph


@dataclass(frozen=True)
class Size:
    """Dimensions of the network; the defaults ship."""

    rows: tuple[int, ...] = (12288, 512, 128, 2048, 128, 768, 2048, 3072)
    """Rows of the table for each of `FEATURES`."""
    feature_width: int = 24
    width: int = 64
    """Of both streams."""
    distances: tuple[int, ...] = (1, 2, 3)
    """How far apart the three words are that each layer looks at."""
    joint: int = 96
    """Width of the layer where the streams meet."""
    neighbours: Literal["looks", "words"] = "looks"

    @property
    def reach(self) -> int:
        """How many words either side may matter."""
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
        """Scores (B, T, kinds) of words that are there.

        Passages in one row stay apart with as many empty places between them as the longest of
        the distances.

        Args:
            rows: (B, T, features * HASHES) of the table.
            looks: (B, T).
            present: (B, T), 1 where there is a word.
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

    The weights are whole numbers of one byte, see `onnx_graph`.

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
