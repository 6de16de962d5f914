"""Makes what the denoiser learns from: the clean embedding of each passage, and a noisy answer.

Why it is here: both come from the backbone and take most of the time, so they are kept in shards on
disk as they are made. A run that was stopped goes on with the next shard; a folder is named by the
hash of all that its numbers depend on, so a change never meets old shards. Each passage gets one
draw of noise at an eta of its own, from everywhere in the range, for one network serves them all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sottovoce.cloud.models.encoder import Encoder, PosteriorMean
from sottovoce.core.platform.files import in_place_of
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.denoiser import space_sketch
from sottovoce.core.privacy.noise import Floats2d

__all__ = [
    "Answers",
    "Passages",
    "Progress",
    "answers",
    "clean",
    "encode",
    "named",
    "space_facts",
    "tokenize",
]

LONGEST: Final = 128
"""Tokens of a passage; longer ones are cut. The network knows no absolute positions."""

_SHARD: Final = 2_048
_TOKENS: Final = 2_048
"""Tokens, padding included, in a forward pass."""

Progress = Callable[[str, int, int], None]
"""Called with the stage, and how much of it is done out of how much."""


@dataclass(frozen=True, slots=True)
class Passages:
    """Token ids, without special tokens: passage i is ``flat[ends[i-1]:ends[i]]``."""

    flat: NDArray[np.int32]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, place: int) -> NDArray[np.int32]:
        return self.flat[(self.ends[place - 1] if place else 0) : self.ends[place]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Ints1d (passages,), tokens of each."""
        return np.diff(self.ends, prepend=0)

    @property
    def sha256(self) -> str:
        """Of the numbers."""
        return hashlib.sha256(self.flat.tobytes() + self.ends.tobytes()).hexdigest()

    def first(self, n: int) -> Passages:
        """Only the first ``n``."""
        return Passages(self.flat[: self.ends[n - 1]] if n else self.flat[:0], self.ends[:n])


@dataclass(frozen=True, slots=True)
class Answers:
    """What a cloud answered: eta Floats1d (passages,), and e_n Floats2d (passages, width)."""

    eta: NDArray[np.float32]
    embeddings: NDArray[np.float16]


def tokenize(tokenizer: Any, texts: Sequence[str]) -> Passages:
    """The texts as token ids, those without any left out."""
    rows: list[list[int]] = []
    for start in range(0, len(texts), 5_000):
        found = tokenizer(list(texts[start : start + 5_000]), add_special_tokens=False)["input_ids"]
        rows += [ids[:LONGEST] for ids in found if ids]
    flat = np.concatenate([np.array(ids, np.int32) for ids in rows])
    return Passages(flat, np.cumsum([len(ids) for ids in rows]))


def clean(
    passages: Passages, encoder: Encoder, folder: Path, progress: Progress | None = None
) -> NDArray[np.float16]:
    """Clean embeddings, e_c: Floats2d (passages, width), made once and kept in ``folder``."""

    def make(places: range) -> NDArray[np.float32]:
        tokens = [encoder.token_embeddings(passages[place].tolist()) for place in places]
        return encode(encoder, tokens)

    shards = [*_shards(folder, "clean embeddings", len(passages), make, progress)]
    return np.concatenate(shards).astype(np.float16)


def answers(
    passages: Passages,
    encoder: Encoder,
    posterior: PosteriorMean,
    space: Floats2d,
    eta_range: tuple[float, float],
    folder: Path,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Answers:
    """Noisy answers at etas drawn evenly, in proportion, from ``eta_range``; kept in ``folder``.

    Args:
        passages: n of them.
        encoder: over the backbone.
        posterior: what the cloud does first.
        space: Floats2d (tokens, r), rows of length 1.
        eta_range: lowest and highest.
        folder: of the shards.
        seed: of etas and noise.
        progress: told after each shard.
    """
    low, high = np.log(eta_range)

    def make(places: range) -> NDArray[np.float32]:
        random = np.random.default_rng([seed, places.start])
        etas = np.exp(random.uniform(low, high, len(places))).astype(np.float32)
        ids = np.concatenate([passages[place] for place in places])
        lengths = passages.lengths[places.start : places.stop]
        slopes = np.repeat(etas, lengths)
        steps = noise.draw(random, len(ids), space.shape[1], 1.0) / slopes[:, None]
        with torch.autocast(encoder.device.type, dtype=torch.bfloat16):
            means = posterior(space[ids] + steps, torch.from_numpy(slopes))
        found = torch.split(means.float(), lengths.tolist())
        return np.column_stack([etas, encode(encoder, found)])

    shards = [*_shards(folder, "noisy answers", len(passages), make, progress)]
    table = np.concatenate(shards)
    return Answers(table[:, 0].copy(), table[:, 1:].astype(np.float16))


def encode(encoder: Encoder, inputs: Sequence[Tensor]) -> NDArray[np.float32]:
    """Answers of the backbone in batches of like length: Floats2d (inputs, width)."""
    found = np.empty((len(inputs), encoder.width), np.float32)
    order = sorted(range(len(inputs)), key=lambda place: len(inputs[place]))
    start = 0
    with torch.autocast(encoder.device.type, dtype=torch.bfloat16):
        while start < len(order):
            end = start + 1
            while end < len(order) and (end - start + 1) * len(inputs[order[end]]) <= _TOKENS:
                end += 1
            places = order[start:end]
            found[places] = encoder.encode([inputs[place] for place in places]).numpy()
            start = end
    return found


def named(folder: Path, what: str, **facts: Any) -> Path:
    """The folder for numbers that depend on ``facts``."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return folder / f"{what}-{digest[:12]}"


def space_facts(tokens: Floats2d) -> dict[str, Any]:
    """What tells one privacy space from another."""
    return {"dimensions": tokens.shape[1], "sketch": space_sketch(tokens)}


def _shards(
    folder: Path,
    stage: str,
    n: int,
    make: Callable[[range], NDArray[np.float32]],
    progress: Progress | None,
) -> Iterator[NDArray[np.float32]]:
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, n, _SHARD):
        places = range(start, min(start + _SHARD, n))
        file = folder / f"{start:08}-{places.stop:08}.npy"
        if not file.is_file():
            with in_place_of(file) as aside, aside.open("wb") as opened:
                np.save(opened, make(places).astype(np.float16))
        yield np.load(file, allow_pickle=False).astype(np.float32)
        if progress:
            progress(stage, places.stop, n)
