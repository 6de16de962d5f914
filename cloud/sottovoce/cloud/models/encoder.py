"""Turn token embeddings into a sentence embedding: the cloud's half of Split-and-Denoise.

In Split-and-Denoise (section 3.2), the device holds the token representation layer and the cloud
holds the rest, so the backbone starts from input embeddings. Encoders, decoders and the encoder of
an encoder-decoder run in the same way. The tokenizer's special tokens surround the text; they are
the same for everyone and carry no noise. The hidden states are averaged and scaled to length 1.
For the default backbone, this is its published sentence embedding.

`PosteriorMean` turns noisy vectors into these input embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.classifier import encoder_of, pool
from sottovoce.cloud.models.rows import Row, Unpadded
from sottovoce.core.bundle.backbone import around
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.noise import Floats2d

LONGEST: Final = 512
"""Tokens in a text, special tokens included, if the backbone allows more."""
_BATCH: Final = 32


class Encoder:
    """Sentence embeddings over one backbone, whose model moves to ``device``.

    Not safe to share between threads.
    """

    def __init__(self, backbone: LoadedBackbone, device: torch.device | str = "cpu") -> None:
        self._tokenizer = backbone.tokenizer
        self._model = encoder_of(backbone.model).to(device)
        self.device = torch.device(device)
        self._unpadded = Unpadded.of(self._model) if self.device.type == "cpu" else None
        self._table = self._model.get_input_embeddings()
        self.width = backbone.hidden_size
        self._before, self._after = around(
            *(self._tokenizer("a", add_special_tokens=more)["input_ids"] for more in (False, True))
        )
        positions = getattr(self._model.config, "max_position_embeddings", None) or LONGEST
        self.max_tokens = min(positions, LONGEST) - len(self._before) - len(self._after)
        """Tokens in a text, without special tokens."""

    @torch.no_grad()
    def encode(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return sentence embeddings for token embeddings, from one forward pass.

        Args:
            inputs: Float (n_i, width) each, n_i of at least 1 and at most ``max_tokens``.

        Returns:
            Float (batch, width) on the CPU, rows of length 1.

        Raises:
            InvalidInput: a text has no tokens, or too many.
        """
        for n in map(len, inputs):
            if not 1 <= n <= self.max_tokens:
                raise InvalidInput(
                    f"the text has {n} tokens, this backbone takes 1 to {self.max_tokens}",
                    fix="send a text in parts",
                    subject="embeddings",
                )
        before, after = (
            self._table(torch.tensor(ids, dtype=torch.int64, device=self.device))
            for ids in (self._before, self._after)
        )
        rows = [torch.cat([before, text.to(before), after]) for text in inputs]
        return self._pooled(rows)

    @torch.no_grad()
    def encode_clean(self, texts: Sequence[str]) -> Tensor:
        """Return embeddings of original texts, cut at ``max_tokens``: Float (texts, width)."""
        ids = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        cut = [row[: self.max_tokens] for row in ids]
        found = torch.empty(len(cut), self.width)
        by_length = sorted(range(len(cut)), key=lambda place: len(cut[place]))
        for start in range(0, len(by_length), _BATCH):
            places = by_length[start : start + _BATCH]
            rows = [
                self._table(
                    torch.tensor([*self._before, *cut[place], *self._after], device=self.device)
                )
                for place in places
            ]
            found[places] = self._pooled(rows)
        return found

    def token_embeddings(self, ids: Sequence[int]) -> Tensor:
        """Return the clean inputs for token ``ids``: Float (n, width)."""
        with torch.no_grad():
            table: Tensor = self._table(torch.tensor(list(ids), device=self.device))
        return table

    def _pooled(self, rows: Sequence[Tensor]) -> Tensor:
        if self._unpadded is not None:
            found = self._unpadded(rows, [Row()] * len(rows))
            return F.normalize(torch.stack([each.float().mean(0) for each in found]), dim=1)
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        inputs = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)  # (B, n, h)
        mask = torch.arange(inputs.shape[1], device=self.device) < lengths[:, None]
        states = self._model(inputs_embeds=inputs, attention_mask=mask.long()).last_hidden_state
        return F.normalize(pool(states.float(), mask.float()), dim=1).cpu()


_ROWS: Final = 256
"""Vectors with probabilities in memory at once: 30 MiB with 30,000 tokens."""
_SCORES: Final = 1 << 19
"""Scores computed at once: 2 MiB fits a processor's cache and is four times as fast."""


class PosteriorMean:
    """Maps noisy vectors of the privacy space to full-width input embeddings.

    For a vector q received at eta: sum over tokens v of p(v | q) E_v, with p(v | q) proportional to
    p_v exp(-eta ||q - x_v||), the mechanism's density (SnD section 3.3) times the prior.

    Args:
        space: Floats2d (tokens, r): every token's place in the privacy space.
        embeddings: Floats2d (tokens, width), the backbone's input embeddings.
        log_prior: Floats1d (tokens,), log of the token frequencies, see
            `sottovoce.models.calibration_attack`.
        device: for the arrays and the computation.
    """

    def __init__(
        self,
        space: Floats2d,
        embeddings: Floats2d,
        log_prior: NDArray[np.float32],
        device: torch.device | str = "cpu",
    ) -> None:
        columns = np.vstack([-2 * space.T, np.square(space).sum(axis=1)])  # (r + 1, tokens)
        self._columns = torch.tensor(columns, device=device)
        self._embeddings = torch.tensor(np.asarray(embeddings), device=device)
        self._log_prior = torch.tensor(np.asarray(log_prior), device=device)

    @property
    def dimensions(self) -> int:
        return self._columns.shape[0] - 1

    @torch.no_grad()
    def __call__(self, noisy: Tensor | Floats2d, eta: float | Tensor) -> Tensor:
        """Return the posterior means.

        Args:
            noisy: Floats2d (n, r), as received.
            eta: the privacy parameter of the noise, one for all or Float (n,).

        Returns:
            Float (n, width), on the device of this object.
        """
        vectors = torch.as_tensor(noisy).to(self._columns)  # (n, r)
        found = vectors.new_empty(len(vectors), self._embeddings.shape[1])
        for block, probabilities in self._probabilities(vectors, eta):
            found[block] = probabilities @ self._embeddings
        return found

    @torch.no_grad()
    def confidence(self, noisy: Tensor | Floats2d, eta: float | Tensor) -> Tensor:
        """Return the probability of the likeliest token: Float (n,).

        This token is the attacker's guess. For vectors of tokens with the prior's frequencies, the
        mean is the attacker's success.
        """
        vectors = torch.as_tensor(noisy).to(self._columns)
        best = [p.amax(1) for _, p in self._probabilities(vectors, eta)]
        return torch.cat(best) if best else vectors.new_empty(0)

    def _probabilities(
        self, vectors: Tensor, eta: float | Tensor
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield blocks of rows, and p(v | q) for each block: Float (rows, tokens)."""
        slopes = torch.as_tensor(eta).to(vectors).expand(len(vectors)).unsqueeze(1)  # (n, 1)
        # ||q - x||^2 = ||q||^2 + (q, 1).(-2 x, ||x||^2), which only rounding makes negative.
        squares = vectors.square().sum(1, keepdim=True)
        extended = torch.nn.functional.pad(vectors, (0, 1), value=1.0)
        step = max(1, _SCORES // self._columns.shape[1])
        for start in range(0, len(vectors), _ROWS):
            block = slice(start, start + _ROWS)
            parts = zip(
                *(torch.split(each[block], step) for each in (extended, squares, slopes)),
                strict=True,
            )
            with torch.autocast(vectors.device.type, enabled=False):  # distances need their digits
                found = [
                    torch.addmm(square, vector, self._columns)
                    .clamp_min_(0)
                    .sqrt_()
                    .mul_(-slope)
                    .add_(self._log_prior)
                    .softmax(1)
                    for vector, square, slope in parts
                ]
            yield block, torch.cat(found)
