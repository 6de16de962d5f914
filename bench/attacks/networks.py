"""Black-box attackers: networks that know no mechanism, only pairs of words and their releases.

Why it is here: RAPT v2 (section IV-A1) attacks with an MLP and an autoencoder trained on what an
API answers. They need no model of the noise, so they also work where we are wrong about it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
import torch
from torch import Tensor, nn

from bench.attacks.interface import OPEN, Channel, Floats, Releases, Seen
from bench.attacks.inversion import chunks
from bench.attacks.text import Ints

__all__ = ["Autoencoder", "Mlp"]

_HIDDEN: Final = 256
_BATCH: Final = 256


class _Network(ABC):
    """What both share: asking the mechanism about words drawn from the prior, and training."""

    def __init__(self, channel: Channel, steps: int, seed: int = 0) -> None:
        self._channel, self._steps = channel, steps
        self._random = np.random.default_rng(seed)
        torch.manual_seed(seed)

    def _train(self, public: Releases, parameters: Sequence[Tensor], rate: float) -> None:
        """Minimises `_loss` over fresh releases, of groups as common as in ``public``."""
        met = np.bincount(public.seen.group[public.seen.group != OPEN])
        shares = met / met.sum()
        optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=1e-4)
        pace = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, self._steps, pct_start=0.1)
        for _ in range(self._steps):
            group = self._random.choice(len(shares), p=shares)
            ids = self._channel.candidates[group].draw(_BATCH, self._random)
            sent = self._channel.send(ids, np.full(_BATCH, group, np.int32), self._random)
            loss = self._loss(self._look(sent), ids, group)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            pace.step()

    @abstractmethod
    def _loss(self, vectors: Tensor, ids: Ints, group: int) -> Tensor:
        """What training makes least, for one group of words."""

    def _look(self, seen: Floats | Ints) -> Tensor:
        """The vectors a network reads: of released words, their public rows."""
        rows: Any = seen if seen.dtype.kind == "f" else self._channel.rows[seen]
        return torch.tensor(np.asarray(rows, np.float32))


class Mlp(_Network):
    """Classifies what is seen as one of the candidates.

    Two layers move the vector; a word's score is its closeness to where it lands, and a bias that
    starts at how common the word is. Words a batch does not hold are learnt about as well, which a
    plain output layer of 20,000 words needs millions of examples for.
    """

    name: ClassVar[str] = "MLP"

    def fit(self, public: Releases) -> None:
        """Trains for `steps` batches."""
        rows = torch.tensor(np.asarray(self._channel.rows))
        d = rows.shape[1]
        self._move = _step(d)
        self._rows = nn.Parameter(rows.clone())
        self._bias = nn.Parameter(torch.zeros(len(rows)))
        spread = float(rows.std(0).square().sum())
        self._log_scale = nn.Parameter(torch.tensor(np.log(30.0 / spread), dtype=torch.float32))
        own = [*self._move.parameters(), self._bias, self._rows, self._log_scale]
        self._train(public, own, 3e-3)

    @torch.no_grad()
    def guess(self, seen: Seen) -> Ints:
        found = seen.symbols.copy()
        for group, which in chunks(self._channel, seen):
            scores = self._scores(self._look(seen.evidence(which)), group)
            found[which] = self._channel.candidates[group].ids[scores.argmax(1).numpy()]
        return found

    def _scores(self, vectors: Tensor, group: int) -> Tensor:
        candidates = self._channel.candidates[group]
        ids = torch.from_numpy(candidates.ids.astype(np.int64))
        rows, landed = self._rows[ids], vectors + self._move(vectors)
        bias = self._bias[ids] + torch.from_numpy(candidates.log_prior)
        # -||landed - row||^2 / 2, less what is the same for every word
        closeness: Tensor = landed @ rows.T - rows.square().sum(1) / 2
        return self._log_scale.exp() * closeness + bias

    def _loss(self, vectors: Tensor, ids: Ints, group: int) -> Tensor:
        place = np.searchsorted(self._channel.candidates[group].ids, ids)
        wanted = torch.from_numpy(place.astype(np.int64))
        return nn.functional.cross_entropy(self._scores(vectors, group), wanted)


class Autoencoder(_Network):
    """Encodes what is seen, decodes the vector of the word behind it, and names the nearest word.

    Attributes:
        mse: of the last `fit`, against the true vectors of its public releases; and of a guess that
            knows nothing, their mean (``mse_of_mean``). RAPT v2 reports the first.
    """

    name: ClassVar[str] = "autoencoder"
    mse = mse_of_mean = float("nan")

    def fit(self, public: Releases) -> None:
        """Trains for four times `steps` batches, which are cheap."""
        d = self._channel.rows.shape[1]
        self._rows = torch.tensor(np.asarray(self._channel.rows))
        self._encode, self._decode = _step(d), _step(d)
        self._skip = nn.Parameter(torch.ones(d))
        self._steps *= 4
        own = [*self._encode.parameters(), *self._decode.parameters(), self._skip]
        self._train(public, own, 3e-3)
        self._steps //= 4
        hidden = (public.seen.group != OPEN) & (public.true < len(self._rows))
        which = np.flatnonzero(hidden)
        with torch.no_grad():
            truth = self._rows[torch.from_numpy(public.true[which].astype(np.int64))]
            decoded = self._decoded(self._look(public.seen.evidence(which)))
            self.mse = float((decoded - truth).square().mean())
            self.mse_of_mean = float((truth - truth.mean(0)).square().mean())

    @torch.no_grad()
    def guess(self, seen: Seen) -> Ints:
        found = seen.symbols.copy()
        for group, which in chunks(self._channel, seen):
            ids = self._channel.candidates[group].ids
            rows = self._rows[torch.from_numpy(ids.astype(np.int64))]
            decoded = self._decoded(self._look(seen.evidence(which)))
            scores = decoded @ rows.T - rows.square().sum(1) / 2
            found[which] = ids[scores.argmax(1).numpy()]
        return found

    def _decoded(self, vectors: Tensor) -> Tensor:
        code: Tensor = vectors * self._skip + self._encode(vectors)
        decoded: Tensor = code + self._decode(code)
        return decoded

    def _loss(self, vectors: Tensor, ids: Ints, group: int) -> Tensor:
        truth = self._rows[torch.from_numpy(ids.astype(np.int64))]
        return (self._decoded(vectors) - truth).square().mean() * vectors.shape[1]


def _step(d: int) -> nn.Module:
    """Two layers that add nothing to a vector of ``d`` numbers before they have learnt something:
    without noise, what is seen is already the answer."""
    last = nn.Linear(_HIDDEN, d)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(d, _HIDDEN), nn.ReLU(), last)
