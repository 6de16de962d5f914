"""A transformer that reads a whole release and scores the words behind it, and its training.

At one place of a text, the release shows word y of class c. The score of word x behind it is:

    context logit(x | release) + a(level, c) * closeness(y, x) + log p(x | c) + b(x)

Only words of class c get a score, as in every other attack.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, Dataset

from bench.attacks.interface import OPEN, Candidates, Floats, Seen
from bench.attacks.text import Ints
from sottovoce.cloud.models.backbone import fast_bfloat16

__all__ = ["LENGTH", "Reader", "Trainer", "View", "Vocabulary", "device", "windows"]

LENGTH: Final = 64
"""Maximum number of words that are read together."""

_LEARNING: Final = (1e-2, 1e-3, 1.5e-4)
"""Learning rates of a(level, c), of other new parameters, and of the backbone."""
_WARM_UP: Final = 30
_SLOWS_AT: Final = 1_000
"""Number of steps after which the learning rate falls with the square root of the steps."""
_AVERAGED: Final = 8
"""The averaged weights cover about the last eighth of all steps."""
_READ: Final = 256
"""Maximum number of windows that are read at once."""
_ALIKE: Final = 8
"""Lengths of windows that are read at once differ by less."""
_AHEAD: Final = 4
"""Releases that each worker makes in advance."""
_FILE: Final = 14 << 20
"""Most bytes of weights in a file."""
_PASS, _NOISE, _DRAWN = range(3)


def device(name: str = "") -> torch.device:
    """Return the named device, or the GPU if there is one, or the CPU."""
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def windows(sentence: Ints, length: int = LENGTH) -> list[NDArray[np.int64]]:
    """Cut sentences into windows of at most ``length`` places, grouped by similar length.

    Returns:
        Each Ints2d (windows, longest), places of the text, with -1 after the end of a window. Each
        place is in one group.

    >>> windows(np.array([0, 0, 0, 1]), 2)
    [array([[ 2, -1],
           [ 3, -1],
           [ 0,  1]])]
    """
    starts = np.flatnonzero(np.diff(sentence, prepend=-1))
    parts = [
        part[at : at + length]
        for part in np.split(np.arange(len(sentence)), starts[1:])
        for at in range(0, len(part), length)
    ]
    parts.sort(key=len)
    alike = [[*some] for _, some in groupby(parts, lambda part: -(len(part) // -_ALIKE))]
    return [
        np.array([*zip_longest(*some[at : at + _READ], fillvalue=-1)]).T
        for some in alike
        for at in range(0, len(some), _READ)
    ]


@dataclass(frozen=True)
class Vocabulary:
    """The network's knowledge of words before training.

    Attributes:
        meaning: Floats2d (words, width), input embeddings of the listed words.
        space: Floats2d (words, d), the privacy space.
        candidates: of each class.
        rates: Floats2d (levels, classes), initial values of a(level, c).
        etas: Floats2d (levels, classes), of the noise in the releases that train the network.
    """

    meaning: Floats
    space: Floats
    candidates: tuple[Candidates, ...]
    rates: Floats
    etas: Floats


@dataclass(frozen=True)
class View:
    """A release for the network: visible symbols, level, and embeddings of unlisted words.

    Attributes:
        unlisted: Floats2d (unlisted words, width), in the order of the text.
    """

    seen: Seen
    level: int
    unlisted: Floats


class Reader(nn.Module):
    """A network that reads windows of a release.

    Args:
        backbone: a `transformers` model that takes ``inputs_embeds``.
        vocabulary: see `Vocabulary`.
        evidence: takes released words and their class, and returns how well each candidate explains
            them, Floats2d (n, candidates); by default minus distances in the privacy space.
    """

    space: Tensor
    etas: Tensor

    def __init__(
        self,
        backbone: Any,
        vocabulary: Vocabulary,
        evidence: Callable[[Ints, int], Floats] | None = None,
    ) -> None:
        super().__init__()
        self.evidence = evidence
        rows, groups = torch.tensor(vocabulary.meaning), len(vocabulary.candidates)
        self.listed, width = rows.shape
        self.backbone = backbone
        self.words = nn.Embedding(self.listed, width, _weight=rows.clone())
        self.point = nn.Linear(vocabulary.space.shape[1], width, bias=False)
        nn.init.zeros_(self.point.weight)
        self.treatment, self.group = nn.Embedding(3, width), nn.Embedding(groups + 1, width)
        self.level = nn.Embedding(len(vocabulary.rates), width)
        for each in (self.treatment, self.group, self.level):
            nn.init.normal_(each.weight, std=0.02)
        self.out = nn.Linear(width, width)
        self.table = nn.Embedding(self.listed, width, _weight=rows.clone())
        self.bias = nn.Parameter(torch.zeros(self.listed))
        self.log_rate = nn.Parameter(torch.log(torch.tensor(vocabulary.rates)))
        self.register_buffer("space", torch.tensor(np.asarray(vocabulary.space, np.float32)))
        self.register_buffer("etas", torch.tensor(np.asarray(vocabulary.etas, np.float32)))
        self.ids = [some.ids for some in vocabulary.candidates]
        for group, some in enumerate(vocabulary.candidates):
            self.register_buffer(f"ids{group}", torch.tensor(some.ids, dtype=torch.long))
            self.register_buffer(f"prior{group}", torch.tensor(some.log_prior))

    def nearest(self, etas: Floats) -> tuple[int, Floats]:
        """Return the level with the noise nearest to ``etas``, and the ratios of the etas to it.

        ``etas`` and the ratios are Floats1d (classes,).
        """
        apart = np.log(etas / self.etas.cpu().numpy())
        level = int(np.abs(apart).mean(axis=1).argmin())
        return level, np.exp(apart[level]).astype(np.float32)

    def read(self, view: View) -> Tensor:
        """Return hidden states of every place, Float (n, width)."""
        groups = windows(view.seen.sentence)
        order = torch.tensor(np.argsort(np.concatenate([some[some >= 0] for some in groups])))
        return torch.cat([self._read(view, some) for some in groups])[order]

    def _read(self, view: View, places: NDArray[np.int64]) -> Tensor:
        """Return hidden states of the places of some windows, in order, Float (places, width)."""
        at, seen, where = np.maximum(places, 0), view.seen, self.space.device
        symbols, group = seen.symbols[at], seen.group[at]
        ids = torch.tensor(np.minimum(symbols, self.listed - 1), dtype=torch.long, device=where)
        treatment = np.where(group != OPEN, _NOISE, _PASS)
        if seen.drawn is not None:
            treatment[seen.drawn[at]] = _DRAWN
        read = self.words(ids) + self.point(self.space[ids])
        other = symbols >= self.listed
        row = np.cumsum(seen.symbols >= self.listed)[at[other]] - 1
        unknown = torch.tensor(view.unlisted[row], dtype=read.dtype, device=where)
        read = read.index_put((torch.tensor(other, device=where),), unknown)
        read = read + self.treatment(torch.tensor(treatment, device=where))
        read = read + self.group(torch.tensor(group + 1, dtype=torch.long, device=where))
        read = read + self.level.weight[view.level]
        mask = torch.tensor(places >= 0, dtype=torch.long, device=where)
        found: Tensor = self.backbone(inputs_embeds=read, attention_mask=mask).last_hidden_state
        return found[mask.bool()]

    def scores(
        self, hidden: Tensor, level: int, group: int, symbols: Ints, times: float = 1.0
    ) -> Tensor:
        """Score all candidates of ``group`` behind ``symbols``, Float (n, candidates).

        ``times`` scales a(level, c), for other noise than the level's.
        """
        ids, prior = getattr(self, f"ids{group}"), getattr(self, f"prior{group}")
        context = self.out(hidden) @ self.table(ids).T * (4 / math.sqrt(hidden.shape[-1]))
        if self.evidence:
            close = torch.tensor(self.evidence(symbols, group), device=self.space.device)
        else:
            seen = self.space[torch.tensor(symbols, dtype=torch.long, device=self.space.device)]
            close = -torch.cdist(seen, self.space[ids])
        found: Tensor = context.float() + self.bias[ids] + prior
        return found + times * self.log_rate[level, group].exp() * close

    def loss(self, view: View, true: Ints) -> tuple[Tensor, int]:
        """Return the sum of cross-entropies over the words with noise, and their number."""
        total, n = self.log_rate.sum() * 0, 0
        with _fast(self.space.device):
            hidden = self.read(view)
        for each in np.unique(view.seen.group[view.seen.group != OPEN]).tolist():
            where = np.flatnonzero(view.seen.group == each)
            ids = self.ids[each]
            target = np.minimum(np.searchsorted(ids, true[where]), len(ids) - 1)
            met = np.flatnonzero(ids[target] == true[where])
            if met.size:
                which = where[met]
                with _fast(self.space.device):
                    symbols = view.seen.symbols[which]
                    scores = self.scores(hidden[which], view.level, each, symbols)
                wanted = torch.tensor(target[met], dtype=torch.long, device=scores.device)
                total = total + nn.functional.cross_entropy(scores, wanted, reduction="sum")
                n += len(met)
        return total, n


@contextmanager
def _fast(on: torch.device) -> Iterator[None]:
    """Compute in bfloat16 where that is fast.

    On a CPU, use plain attention, which has a fast backward pass.
    """
    cpu = on.type == "cpu"
    kernel = sdpa_kernel(SDPBackend.MATH) if cpu else nullcontext()
    with kernel, torch.autocast(on.type, torch.bfloat16, enabled=not cpu or fast_bfloat16()):
        yield


Make = Callable[[Generator, int], tuple[View, Ints]]
"""A function that draws text and releases it at a level: the visible part and the truth."""


@dataclass(frozen=True)
class _Steps(Dataset[tuple[View, Ints]]):
    """The releases of each step."""

    make: Make
    levels: int
    seed: int

    def __getitem__(self, step: int) -> tuple[View, Ints]:
        return self.make(np.random.default_rng((self.seed, step)), step % self.levels)


def _same(item: Any) -> Any:
    return item


@dataclass
class Trainer:
    """Trains a `Reader` on releases that ``make`` draws, and keeps a checkpoint.

    Step ``n`` draws from a generator seeded with ``n``. So a resumed training takes the same steps
    as an uninterrupted one.

    Attributes:
        reader: the network.
        make: see `Make`.
        levels: number of levels; steps take turns.
        held: releases of other texts, on which the loss is watched.
        identity: the training target that a checkpoint must match.
        seed: of the draws.
        workers: processes that make releases; with 0, this process does.
    """

    reader: Reader
    make: Make
    levels: int
    held: Sequence[tuple[View, Ints]] = ()
    identity: str = ""
    seed: int = 0
    workers: int = 0
    step: int = 0
    seconds: float = 0.0
    words: int = 0
    history: list[list[float]] = field(default_factory=list)
    """Step, seconds of training, number of words with noise so far, loss on the held-out texts."""

    def __post_init__(self) -> None:
        backbone = {id(each) for each in self.reader.backbone.parameters()}
        parameters = [*self.reader.parameters()]
        backbone.add(id(self.reader.words.weight))
        rate = self.reader.log_rate
        old = [each for each in parameters if id(each) in backbone]
        new = [each for each in parameters if id(each) not in backbone and each is not rate]
        groups = [{"params": each} for each in ([rate], new, old)]
        fused = self.reader.space.is_cuda
        self._optimizer = torch.optim.AdamW(groups, weight_decay=0.01, fused=fused)
        self._average = AveragedModel(self.reader, multi_avg_fn=_running)
        self._etas = self.reader.etas.clone()

    @property
    def trained(self) -> Reader:
        """Return the network with averaged weights, to attack with."""
        found = self._average.module
        assert isinstance(found, Reader)
        return found.eval()

    def run(self, seconds: float, steps: int = 1 << 60) -> Iterator[float]:
        """Take steps for about ``seconds`` and until step ``steps``; yield each step's loss."""
        until, self.reader = self.seconds + seconds, self.reader.eval()
        if not torch.equal(self.reader.etas, self._etas):  # earlier losses are of other noise
            self.history = []
            for network in (self.reader, self.trained):
                network.etas.copy_(self._etas)
        made = self._releases(steps)
        while self.seconds < until and self.step < steps:
            start = time.monotonic()
            loss = self._take_step(*next(made))
            self.seconds += time.monotonic() - start
            yield loss

    def _releases(self, steps: int) -> Iterator[tuple[View, Ints]]:
        """Return the releases of the next steps, in order."""
        return iter(
            DataLoader(
                _Steps(self.make, self.levels, self.seed),
                batch_size=None,
                sampler=range(self.step, steps),
                num_workers=self.workers,
                collate_fn=_same,
                multiprocessing_context="fork" if self.workers else None,
                prefetch_factor=_AHEAD if self.workers else None,
            )
        )

    def _take_step(self, view: View, true: Ints) -> float:
        torch.manual_seed(self.step)
        speed = min(1.0, (self.step + 1) / _WARM_UP, math.sqrt(_SLOWS_AT / (self.step + 1)))
        for group, rate in zip(self._optimizer.param_groups, _LEARNING, strict=True):
            group["lr"] = rate * speed
        total, n = self.reader.loss(view, true)
        loss = total / max(1, n)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.reader.parameters(), 1.0)
        self._optimizer.step()
        self._average.update_parameters(self.reader)
        self.step += 1
        self.words += n
        return float(loss.detach())

    @torch.no_grad()
    def judge(self) -> float:
        """Return the averaged network's loss on the held-out texts, and add it to `history`."""
        found = [self.trained.loss(view, true) for view, true in self.held]
        loss = float(sum(float(total) for total, _ in found) / max(1, sum(n for _, n in found)))
        self.history.append([self.step, self.seconds, self.words, loss])
        return loss

    def falling(self, patience: int = 4) -> bool:
        """Return whether one of the last ``patience`` judgements has the lowest loss."""
        losses = [each[-1] for each in self.history]
        return len(losses) <= patience or min(losses[-patience:]) < min(losses[:-patience])

    def save(self, path: Path) -> None:
        """Replace the checkpoint at ``path`` with the present state."""
        state = {
            "reader": self.reader.state_dict(),
            "average": self._average.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "counted": [self.step, self.seconds, self.words],
            "history": self.history,
            "identity": self.identity,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        torch.save(state, beside)
        os.replace(beside, path)

    def load(self, path: Path) -> None:
        """Resume from the checkpoint at ``path``.

        Raises:
            ValueError: the checkpoint belongs to another training target.
        """
        state = torch.load(path, map_location=self.reader.space.device, weights_only=True)
        self._check(state["identity"], path)
        self.reader.load_state_dict(state["reader"])
        self._average.load_state_dict(state["average"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds, self.words = state["counted"]
        self.history = state["history"]

    def pack(self, folder: Path) -> None:
        """Write the averaged weights to ``folder``, in few bytes and small files.

        Matrices are in int8 with a scale for each row. The backbone's token embeddings are left
        out, because nothing reads them.
        """
        folder.mkdir(parents=True, exist_ok=True)
        files: list[dict[str, Tensor]] = [{}]
        for name, value in _weights(self.trained).items():
            packed = _packed(name, value.detach().float().cpu())
            if sum(map(_size, (files[-1] | packed).values())) > _FILE:
                files.append({})
            files[-1] |= packed
        for number, tensors in enumerate(files):
            beside = folder / f"weights-{number}.part"
            save_file(tensors, beside)
            os.replace(beside, folder / f"weights-{number}.safetensors")
        about = {
            "counted": [self.step, self.seconds, self.words],
            "history": self.history,
            "etas": self.reader.etas.tolist(),
            "identity": self.identity,
        }
        text = json.dumps(about, indent=1)
        (folder / "history.json").write_text(text)

    def start_from(self, folder: Path) -> None:
        """Take the weights that `pack` wrote where their form fits; the others start anew."""
        found = _files(folder)
        for network in (self.reader, self.trained):
            for name, value in _weights(network).items():
                if value.shape == found[name].shape and name != "log_rate":
                    value.data.copy_(_unpacked(name, found))

    def unpack(self, folder: Path) -> None:
        """Take the weights that `pack` wrote; a training from there has a new optimizer.

        Raises:
            ValueError: the weights belong to another training target.
        """
        state = json.loads((folder / "history.json").read_text())
        self._check(state["identity"], folder)
        found = _files(folder)
        for network in (self.reader, self.trained):
            for name, value in _weights(network).items():
                value.data.copy_(_unpacked(name, found))
            network.etas.copy_(torch.tensor(state["etas"]))
        self.step, self.seconds, self.words = state["counted"]
        self.history = state["history"]

    def _check(self, identity: str, path: Path) -> None:
        if identity != self.identity:
            raise ValueError(f"{path} was trained for {identity}, not {self.identity}")


def _weights(reader: Reader) -> dict[str, nn.Parameter]:
    unused = reader.backbone.get_input_embeddings().weight
    return {name: each for name, each in reader.named_parameters() if each is not unused}


def _files(folder: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for file in sorted(folder.glob("weights-*.safetensors")):
        found |= load_file(file)
    return found


def _packed(name: str, value: Tensor) -> dict[str, Tensor]:
    if value.ndim < 2:
        return {name: value.contiguous()}
    scale = value.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
    return {name: (value / scale).round().to(torch.int8), f"{name}.scale": scale}


def _unpacked(name: str, tensors: Mapping[str, Tensor]) -> Tensor:
    value, scale = tensors[name], tensors.get(f"{name}.scale")
    return value if scale is None else value.float() * scale


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _running(averages: Sequence[Tensor], now: Sequence[Tensor], met: Tensor | int) -> None:
    """Move averages that forget old values, for any number of steps."""
    torch._foreach_lerp_([*averages], [*now], min(1.0, _AVERAGED / (int(met) + _AVERAGED)))
