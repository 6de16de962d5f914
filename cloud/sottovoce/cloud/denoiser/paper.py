"""The published denoiser, to compare with.

Why it is here: the benchmark trains Split-and-Denoise's own network (section 3.4, eq. 6 to 10) on
the same text as ours: a transformer over [e_n; noisy tokens; noise], as wide as the backbone. Noise
is fed as a direction and a length apart, for a vector of length 20 would drown the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its customary name

__all__ = ["PaperNetwork", "PaperSize", "paper_macs"]


@dataclass(frozen=True, slots=True)
class PaperSize:
    """Table 8's row for DistilBERT, the backbone of six layers, at half its width, 768 to 384."""

    width: int = 384
    feed_forward: int = 384
    head: int = 120
    """d_kv."""
    heads: int = 6
    layers: int = 3


class _Block(nn.Module):
    def __init__(self, size: PaperSize) -> None:
        super().__init__()
        inner = size.heads * size.head
        self.heads = size.heads
        self.before = nn.LayerNorm(size.width)
        self.looks = nn.Linear(size.width, 3 * inner)
        self.gathers = nn.Linear(inner, size.width)
        self.between = nn.LayerNorm(size.width)
        self.widens = nn.Linear(size.width, size.feed_forward)
        self.narrows = nn.Linear(size.feed_forward, size.width)

    def forward(self, state: Tensor, mask: Tensor) -> Tensor:
        """Eq. 8 and 9: (B, m, width), (B, m) -> (B, m, width)."""
        batch, m, _ = state.shape
        q, k, v = (
            part.reshape(batch, m, self.heads, -1).transpose(1, 2)
            for part in self.looks(self.before(state)).chunk(3, dim=-1)
        )  # (B, heads, m, d_kv)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].bool())
        state = state + self.gathers(seen.transpose(1, 2).reshape(batch, m, -1))
        changed: Tensor = state + self.narrows(F.gelu(self.widens(self.between(state))))
        return changed


class PaperNetwork(nn.Module):
    """Noisy answer, noisy tokens and noise -> the clean sentence embedding."""

    def __init__(self, size: PaperSize) -> None:
        super().__init__()
        self.size = size
        self.blocks = nn.ModuleList(_Block(size) for _ in range(size.layers))
        self.kinds = nn.Parameter(torch.zeros(3, size.width))
        """Tells e_n, tokens and noise apart."""
        self.lengths = nn.Linear(1, size.width)
        self.out = nn.Linear(size.width, size.width)

    def forward(self, answer: Tensor, noisy: Tensor, noise: Tensor, mask: Tensor) -> Tensor:
        """The estimates, of length 1.

        Args:
            answer: (B, width), e_n.
            noisy: (B, n, width), the tokens as sent.
            noise: (B, n, width), what was added to each, after clipping.
            mask: (B, n), 1 for a token and 0 for padding.

        Returns:
            (B, width).
        """
        scale = self.size.width**0.5  # entries near 1, as layers like them
        length = noise.norm(dim=2, keepdim=True).clamp_min(1e-6)
        parts = (
            answer.unsqueeze(1) * scale,
            F.normalize(noisy, dim=2) * scale,
            noise / length * scale + self.lengths(length.log()),
        )
        state = torch.cat([part + kind for part, kind in zip(parts, self.kinds, strict=True)], 1)
        everything = torch.cat([torch.ones_like(mask[:, :1]), mask, mask], 1)  # (B, 2n + 1)
        for block in self.blocks:
            state = block(state, everything)
        return F.normalize(answer + self.out(state[:, 0]) / scale, dim=1)


def paper_macs(size: PaperSize, tokens: int) -> int:
    """Multiplications of one query of ``tokens`` tokens, counted from the shapes."""
    m = 2 * tokens + 1
    inner = size.heads * size.head
    block = m * size.width * (4 * inner + 2 * size.feed_forward) + 2 * m**2 * inner
    return size.layers * block + size.width**2
