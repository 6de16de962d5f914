"""The tagger's network, in the form that trains.

Hashed features of a word's form are looked up, summed and mixed; four layers then look one word
left and right each, so a tag depends on four words either side. `onnx_graph` writes the same
computation, with whole-number weights, in the form that ships.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from sottovoce.core.text.tagger import FEATURES, HASHES, UPOS

_NORM: Final = FEATURES.index("norm")


@dataclass(frozen=True)
class Size:
    """Dimensions of the network; the defaults ship."""

    rows: tuple[int, ...] = (6144, 512, 128, 2048, 128, 768, 2048, 3072)
    """Rows of the table for each of `FEATURES`."""
    feature_width: int = 48
    width: int = 128
    depth: int = 4
    """Layers, and so the words either side that a tag depends on."""


class Forms(nn.Module):
    """What the forms of words tell about them: hashed features, looked up, summed and mixed.

    Args:
        rows: of the table, for each of `FEATURES`.
        feature_width: of a row.
        width: of what comes out.
        dropout: share of the features, and of what comes out, that training leaves out.
        unknown: share of the words whose norm training hides: rare ones must be told from the rest.
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
        """Scores (B, T, tags) of `rows` (B, T, features * HASHES) where `present` (B, T) is 1.

        A word that is not present hides everything beyond it: passages in one row stay apart.
        """
        present = present.unsqueeze(-1)
        state = self.forms(rows) * present  # (B, T, width)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            padded = nn.functional.pad(state, (0, 0, 1, 1))
            around = torch.cat([padded[:, :-2], state, padded[:, 2:]], -1)  # (B, T, 3 * width)
            state = (state + self.dropout(torch.relu(norm(layer(around))))) * present
        scores: Tensor = self.out(state)
        return scores
