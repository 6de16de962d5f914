"""Guesses what each noisy token vector stood for, softly: the posterior mean of its embedding.

Why it is here: the backbone was never trained on noisy inputs, and fed with them as they come it
answers nearly the same to any sentence. Before the forward pass the cloud therefore replaces each
received vector by the mean of all token embeddings, weighted by how probable each token is given
the vector and public token frequencies. That is post-processing: it costs no privacy, it needs no
training, and it is what the strongest attacker on a single vector knows as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sottovoce.core.privacy.noise import Floats2d

__all__ = ["PosteriorMean"]

_ROWS: Final = 256
"""Vectors whose probabilities are held at once: 30 MiB with 30,000 tokens."""
_SCORES: Final = 1 << 19
"""Scores worked on at once: 2 MiB, which a processor's cache holds; four times as fast."""


class PosteriorMean:
    """Noisy vectors of the privacy space to full-width input embeddings.

    For a vector q received at eta: sum over tokens v of p(v | q) E_v, with p(v | q) proportional to
    p_v exp(-eta ||q - x_v||), the mechanism's density (SnD section 3.3) times the prior.

    Args:
        space: Floats2d (tokens, r): every token's place in the privacy space.
        embeddings: Floats2d (tokens, width), the backbone's input embeddings.
        log_prior: Floats1d (tokens,), log of the token frequencies, see
            `sottovoce.models.corpus.token_frequencies`.
        device: where to compute; the arrays are kept there.
    """

    def __init__(
        self,
        space: Floats2d,
        embeddings: Floats2d,
        log_prior: NDArray[np.float32],
        device: torch.device | str = "cpu",
    ) -> None:
        if not len(space) == len(embeddings) == len(log_prior):
            raise ValueError("space, embeddings and log_prior must speak of the same tokens")
        columns = np.vstack([-2 * space.T, np.square(space).sum(axis=1)])  # (r + 1, tokens)
        self._columns = torch.tensor(columns, device=device)
        self._embeddings = torch.tensor(np.asarray(embeddings), device=device)
        self._log_prior = torch.tensor(np.asarray(log_prior), device=device)

    @property
    def dimensions(self) -> int:
        """r, of the privacy space."""
        return self._columns.shape[0] - 1

    @torch.no_grad()
    def __call__(self, noisy: Tensor | Floats2d, eta: float | Tensor) -> Tensor:
        """The posterior means.

        Args:
            noisy: Floats2d (n, r), as received.
            eta: the privacy parameter the noise was drawn with, one for all or Float (n,).

        Returns:
            Float (n, width), on the device of this object.
        """
        vectors = torch.as_tensor(noisy).to(self._columns)  # (n, r)
        found = vectors.new_empty(len(vectors), self._embeddings.shape[1])
        for block, probabilities in self._probabilities(vectors, eta):
            found[block] = probabilities @ self._embeddings
        return found

    @torch.no_grad()
    def most_probable(self, noisy: Tensor | Floats2d, eta: float | Tensor) -> Tensor:
        """The attacker's guess from the same posterior: Int (n,), token ids."""
        vectors = torch.as_tensor(noisy).to(self._columns)
        guesses = [p.argmax(1) for _, p in self._probabilities(vectors, eta)]
        return torch.cat(guesses) if guesses else vectors.new_empty(0, dtype=torch.int64)

    @torch.no_grad()
    def confidence(self, noisy: Tensor | Floats2d, eta: float | Tensor) -> Tensor:
        """How probable that guess is to be right: Float (n,). Its mean over vectors of tokens that
        come as often as the prior says is the attacker's success."""
        vectors = torch.as_tensor(noisy).to(self._columns)
        best = [p.amax(1) for _, p in self._probabilities(vectors, eta)]
        return torch.cat(best) if best else vectors.new_empty(0)

    def _probabilities(
        self, vectors: Tensor, eta: float | Tensor
    ) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of rows, and p(v | q) for them: Float (rows, tokens)."""
        slopes = torch.as_tensor(eta).to(vectors).expand(len(vectors)).unsqueeze(1)  # (n, 1)
        # ||q - x||^2 = ||q||^2 + (q, 1).(-2 x, ||x||^2), but for rounding never below 0.
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
