"""The denoiser's network: a small sentence encoder that also reads the cloud's answer.

The published denoiser (Split-and-Denoise, section 3.4 and Table 8) is a transformer over the noisy
answer, the noisy tokens and the noise. These are 2n + 1 vectors as wide as the backbone, and it
costs nearly as much as the backbone. But the device knows the exact tokens. So this network is an
encoder over the tokens, with a narrow table. The noisy answer enters twice. It hints to the encoder
what the cloud understood, and a small network that knows eta mixes it into the result. The noise
itself is no input, so long noise overflows no byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its customary name


@dataclass(frozen=True, slots=True)
class Size:
    """Widths. The defaults ship."""

    width: int = 384
    """Of the backbone's sentence embedding."""
    table: int = 128
    """Of a token's row."""
    state: int = 128
    """Of a token inside the layers."""
    layers: int = 2
    heads: int = 4
    hidden: int = 384
    """Of each layer's feed-forward part."""
    mixing: int = 512
    """Of the network that mixes in the answer."""
    reach: int = 2
    """Tokens on either side that a layer's convolution sees. Attention sees all, without order."""


class _Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        d = size.state
        self.heads = size.heads
        self.order = nn.Conv1d(d, d, 2 * size.reach + 1, padding=size.reach, groups=d)
        self.before = nn.LayerNorm(d)
        self.looks = nn.Linear(d, 3 * d)
        self.gathers = nn.Linear(d, d)
        self.between = nn.LayerNorm(d)
        self.widens = nn.Linear(d, size.hidden)
        self.narrows = nn.Linear(size.hidden, d)

    def forward(self, state: Tensor, mask: Tensor) -> Tensor:
        """(B, n, d), (B, n) -> (B, n, d)."""
        batch, n, d = state.shape
        state = state + self.order((state * mask.unsqueeze(-1)).transpose(1, 2)).transpose(1, 2)
        q, k, v = (
            part.reshape(batch, n, self.heads, d // self.heads).transpose(1, 2)
            for part in self.looks(self.before(state)).chunk(3, dim=-1)
        )  # (B, heads, n, d / heads)
        scores = q @ k.transpose(2, 3) * (d // self.heads) ** -0.5
        scores = scores + (mask[:, None, None, :] - 1) * 1e4
        seen = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, n, d)
        state = state + self.gathers(seen)
        return state + self.narrows(F.gelu(self.widens(self.between(state))))  # type: ignore[no-any-return]


class Network(nn.Module):
    """Token rows and the cloud's answer -> the clean sentence embedding."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        d, width = size.state, size.width
        self.enter = nn.Linear(size.table, d)
        self.layers = nn.ModuleList(_Layer(size) for _ in range(size.layers))
        self.hint = nn.Sequential(nn.Linear(width + 2, d), nn.GELU(), nn.Linear(d, d))
        self.after = nn.LayerNorm(d)
        self.words = nn.Linear(size.table, width)
        """Of the mean row: the meaning of single words."""
        self.context = nn.Linear(d, width, bias=False)
        """Of the mean state: the meaning of words together."""
        self.mix = nn.Sequential(
            nn.Linear(2 * width + 2, size.mixing), nn.GELU(), nn.Linear(size.mixing, width)
        )
        self.answer = nn.Linear(width, width, bias=False)
        self.trust = nn.Sequential(nn.Linear(3, 16), nn.GELU(), nn.Linear(16, 1))
        """Weight of the answer, from eta, the number of tokens, and its agreement."""
        for last in (self.context, self.mix[2], self.hint[2], self.answer):
            for parameter in last.parameters():  # training starts from the words alone
                nn.init.zeros_(parameter)

    def forward(
        self, rows: Tensor, mask: Tensor, answer: Tensor, eta: Tensor, helped: Tensor
    ) -> Tensor:
        """Return the estimates, of length 1.

        Args:
            rows: (B, n, table), the tokens' rows.
            mask: (B, n), 1 for a token and 0 for padding.
            answer: (B, width), e_n of length 1; any number if there is none.
            eta: (B,), of the noise in the answer.
            helped: (B,), 1 if there is an answer, else 0.

        Returns:
            (B, width).
        """
        tokens = mask.sum(1, keepdim=True)  # (B, 1)
        told = torch.cat([torch.log(eta).unsqueeze(1) - 3, torch.log(tokens) - 3], 1)  # (B, 2)
        helped = helped.unsqueeze(1)
        # Unit vectors have entries of about width ** -.5; layers like them near 1.
        heard = answer * self.size.width**0.5
        hint = self.hint(torch.cat([heard, told], 1)) * helped  # (B, d)
        state = self.enter(rows) + hint.unsqueeze(1)
        for layer in self.layers:
            state = layer(state, mask)
        weights = (mask / tokens).unsqueeze(-1)
        alone = self.words((rows * weights).sum(1))
        local = alone + self.context((self.after(state) * weights).sum(1))  # (B, width)
        mixed = self.answer(heard) + self.mix(torch.cat([local, heard, told], 1))
        agrees = (F.normalize(local, dim=1) * answer).sum(1, keepdim=True)
        trust = self.trust(torch.cat([agrees, told], 1)).sigmoid()  # (B, 1)
        return F.normalize(local + mixed * trust * helped, dim=1)


def macs(size: Size, tokens: int) -> int:
    """Return the multiplications of a query of ``tokens`` tokens, by the shapes."""
    d, width = size.state, size.width
    layer = tokens * d * (2 * size.reach + 1 + 4 * d + 2 * size.hidden) + 2 * tokens**2 * d
    ends = tokens * size.table * d + (size.table + d) * width
    hint = (width + 2) * d + d * d
    mix = (2 * width + 2) * size.mixing + size.mixing * width + width * width + 4 * 16
    return size.layers * layer + ends + hint + mix
