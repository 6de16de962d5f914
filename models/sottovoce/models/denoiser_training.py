"""Fit the denoiser in two stages, and write it for devices.

The first stage fits a sentence encoder. It depends on no privacy space and takes most of the time,
so its result is kept. The second stage starts from it and fits the use of the cloud's answers, for
one space and range of eta. It shows a part of the passages without an answer, so the same weights
serve a device without network. Both stages maximise the cosine with the backbone's clean embedding
(Split-and-Denoise, eq. 12: for vectors of length 1 the squared error is 2 - 2 cosine).

A device runs the result without torch, as an int8 ONNX network, an int8 token table and a
description. Weights are one byte each with one scale an output channel, as ONNX Runtime's kernels
for arm64 take them.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.core.platform.files import in_place_of
from sottovoce.core.privacy.denoiser import DESCRIPTION, FORMAT, NETWORK, TABLE
from sottovoce.models.denoiser_data import Answers, Passages, Progress
from sottovoce.models.torch_export import prepare, write_int8, write_onnx


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


_KEPT_EVERY: Final = 30.0
_MOMENTS: Final = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True)
class DenoiserHyperparameters:
    """Settings of the training. The defaults ship."""

    epochs: int = 6
    """Of the first stage, over all passages."""
    helped_epochs: int = 6
    """Of the second stage, over passages with an answer."""
    answers: int = 40_960
    """Passages that get an answer."""
    without: float = 0.25
    """Share of these passages that the second stage shows without the answer."""
    tokens: int = 6_000
    """Tokens in a step."""
    learning_rate: float = 2e-3
    helped_learning_rate: float = 1e-3
    seed: int = 7
    size: Size = field(default_factory=Size)


class Model(nn.Module):
    """The network and its token table: Float (tokens, table)."""

    def __init__(self, size: Size, rows: Tensor) -> None:
        super().__init__()
        self.table = nn.Embedding(rows.shape[0], rows.shape[1], _weight=rows.clone())
        self.network = Network(size)

    def forward(
        self, ids: Tensor, mask: Tensor, answer: Tensor, eta: Tensor, helped: Tensor
    ) -> Tensor:
        """Return `Network.forward` of token ids Int (B, n)."""
        found: Tensor = self.network(self.table(ids), mask, answer, eta, helped)
        return found


def first_rows(alone: NDArray[np.float32], log_prior: NDArray[np.float32], size: Size) -> Model:
    """Return a model that adds up words, from which training starts.

    Each token's row is the backbone's embedding of the token alone, less the mean embedding. Common
    tokens get less weight (smooth inverse frequency). The rows keep the principal components that
    fit the table's width.

    Args:
        alone: Floats2d (tokens, width), embeddings of single tokens.
        log_prior: Floats1d (tokens,).
    """
    shares = np.exp(log_prior.astype(np.float64))
    weights = 1e-3 / (1e-3 + shares)
    shares *= weights
    shares /= shares.sum()
    rows = alone.astype(np.float64)
    mean = shares @ rows
    rows = (rows - mean) * weights[:, None]
    _, vectors = np.linalg.eigh((rows * np.sqrt(shares)[:, None]).T @ rows)
    components = vectors[:, ::-1][:, : size.table]
    table = rows @ components
    scale = 2 * np.sqrt(shares @ np.square(table).mean(axis=1))  # entries of about 1/2
    model = Model(size, torch.from_numpy((table / scale).astype(np.float32)))
    with torch.no_grad():
        model.network.words.weight.copy_(torch.from_numpy(components * scale))
        model.network.words.bias.zero_()
    return model


def fit(
    model: Model,
    passages: Passages,
    targets: NDArray[np.float16],
    recipe: DenoiserHyperparameters,
    *,
    answers: Answers | None = None,
    kept: Path | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Model:
    """Train ``model`` in place: the first stage, or with ``answers`` the second.

    Args:
        passages: n of them.
        targets: Floats2d (n, width), their clean embeddings.
        answers: for these passages.
        kept: a file for the state of the run. A stopped run continues from it.
        progress: called after steps.
    """
    epochs = recipe.epochs if answers is None else recipe.helped_epochs
    rate = recipe.learning_rate if answers is None else recipe.helped_learning_rate
    stage = "sentence encoder" if answers is None else "use of answers"
    random_order = [
        batches(passages.lengths, recipe.tokens, np.random.default_rng([recipe.seed, epoch]))
        for epoch in range(epochs)
    ]
    total = sum(map(len, random_order))
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0, fused=True)
    done = _resume(kept, model, optimizer) if kept else 0
    lengths = torch.from_numpy(passages.lengths).sqrt().float().to(device)
    ones = torch.ones_like(lengths)
    saved = time.monotonic()
    for step, places in enumerate(batch for epoch in random_order for batch in epoch):
        if step < done:
            continue
        for group in optimizer.param_groups:
            group["lr"] = rate * pace(step / total)
        random = np.random.default_rng([recipe.seed, 1, step])
        helped = random.random(len(places)) >= recipe.without if answers is not None else None
        inputs = _inputs(passages, places, answers, helped, recipe.size.width, device)
        wanted = torch.from_numpy(targets[places].astype(np.float32)).to(device)
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            found = model(*inputs)
        cosines = (found.float() * wanted).sum(1)
        # Passages of a token or two teach little, and their errors are the largest.
        weights = lengths[torch.from_numpy(places)] if answers is not None else ones[: len(places)]
        loss = 1 - (cosines * weights).sum() / weights.sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        last = step + 1 == total
        if kept and (last or time.monotonic() - saved > _KEPT_EVERY):
            _keep(kept, model, optimizer, step + 1)
            saved = time.monotonic()
        if progress and (last or step % 20 == 0):
            progress(stage, step + 1, total)
    return model.eval()


@torch.no_grad()
def predict(
    model: Model, passages: Passages, answers: Answers | None = None, *, batch: int = 64
) -> NDArray[np.float32]:
    """Return estimates of the clean embeddings: Floats2d (passages, width), float32."""
    model.eval()
    device = next(model.parameters()).device
    width = model.network.size.width
    found = np.empty((len(passages), width), np.float32)
    order = np.argsort(passages.lengths, kind="stable")
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        helped = np.ones(len(places), np.bool_) if answers is not None else None
        found[places] = model(*_inputs(passages, places, answers, helped, width, device)).cpu()
    return found


def _inputs(
    passages: Passages,
    places: NDArray[np.int64],
    answers: Answers | None,
    helped: NDArray[np.bool_] | None,
    width: int,
    device: torch.device | str,
) -> tuple[Tensor, ...]:
    lengths = passages.lengths[places]
    mask = np.arange(lengths.max()) < lengths[:, None]  # (B, n)
    ids = np.zeros(mask.shape, np.int64)
    ids[mask] = np.concatenate([passages[place] for place in places.tolist()])
    floats: tuple[NDArray[Any], ...]
    if answers is None or helped is None:
        none = np.zeros(len(places))
        floats = (mask, np.zeros((len(places), width)), none + 20, none)
    else:
        floats = (mask, answers.embeddings[places], answers.eta[places], helped)
    return (
        torch.from_numpy(ids).to(device),
        *(torch.from_numpy(each.astype(np.float32)).to(device) for each in floats),
    )


def batches(
    lengths: NDArray[np.int64], tokens: int, random: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Yield batches of places with like lengths, in random order, of ``tokens`` with padding."""
    order = random.permutation(len(lengths))
    found: list[NDArray[np.int64]] = []
    for start in range(0, len(order), 8_192):
        pool = order[start : start + 8_192]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        found += [*_filled(pool, lengths, tokens)]
    return [found[i] for i in random.permutation(len(found))]


def _filled(
    pool: NDArray[np.int64], lengths: NDArray[np.int64], tokens: int
) -> Iterator[NDArray[np.int64]]:
    first = 0
    for last in range(1, len(pool) + 1):
        if last == len(pool) or (last + 1 - first) * lengths[pool[last]] > tokens:
            yield pool[first:last]
            first = last


def pace(done: float) -> float:
    """Return the share of the learning rate after a share ``done`` of the steps."""
    return min(done / 0.05 + 0.01, 1.0) * (1 + math.cos(math.pi * done)) / 2


def _keep(file: Path, model: Model, optimizer: torch.optim.Optimizer, step: int) -> None:
    tensors = {}
    for name, parameter in model.named_parameters():
        tensors[f"model.{name}"] = parameter.detach().cpu().contiguous()
        for key in _MOMENTS:
            tensors[f"{key}.{name}"] = optimizer.state[parameter][key].detach().cpu().contiguous()
    file.parent.mkdir(parents=True, exist_ok=True)
    with in_place_of(file) as aside:
        save_file(tensors, aside, metadata={"steps": str(step)})


@torch.no_grad()
def _resume(file: Path, model: Model, optimizer: torch.optim.Optimizer) -> int:
    """Restore the kept state, and return the steps done; 0 if nothing usable is kept."""
    try:
        with safe_open(file, framework="pt") as opened:
            done = int(opened.metadata()["steps"])
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return 0
    for name, parameter in model.named_parameters():
        parameter.copy_(tensors[f"model.{name}"])
        optimizer.state[parameter] = {
            key: tensors[f"{key}.{name}"].to(parameter.device) for key in _MOMENTS
        }
    return done


@dataclass(frozen=True, slots=True)
class Rounded:
    """The token table in whole numbers: Ints2d (tokens, table), and Floats1d (table,) scales."""

    rows: NDArray[np.int8]
    scale: NDArray[np.float32]


def rounded(table: Tensor) -> Rounded:
    """Round with one scale a column. Rows are added up, so absolute errors count."""
    values = table.detach().cpu().numpy()
    scale = np.maximum(np.abs(values).max(axis=0), 1e-8) / 127
    return Rounded(np.rint(values / scale).astype(np.int8), scale.astype(np.float32))


def write(model: Model, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write ``denoiser.onnx``, ``table.npy`` and ``denoiser.json`` into ``folder``.

    Args:
        folder: created if it is missing.
        facts: for the description, see `sottovoce.core.privacy.denoiser`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = rounded(model.table.weight)
    network = to_onnx(model.network, table.scale)
    (folder / NETWORK).write_bytes(network)
    np.save(folder / TABLE, table.rows)
    description = {
        "format": FORMAT,
        **facts,
        "width": model.network.size.width,
        "table": table.rows.shape,
        "sha256": hashlib.sha256(network).hexdigest(),
    }
    text = json.dumps(description, indent=1) + "\n"
    (folder / DESCRIPTION).write_text(text, encoding="utf-8")


def to_onnx(network: Network, scale: NDArray[np.float32], *, int8: bool = True) -> bytes:
    """Return the graph for one text of n tokens.

    ``rows`` int8 (n, table), ``answer`` float32 (width,), ``eta`` float32 (1,), ``helped`` float32
    (1,) -> ``embedding`` float32 (width,).
    """
    size = network.size
    single = _Single(network, torch.from_numpy(scale)).eval()
    example = (
        torch.ones(3, size.table, dtype=torch.int8),
        torch.zeros(size.width),
        torch.full((1,), 20.0),
        torch.ones(1),
    )
    with tempfile.TemporaryDirectory() as scratch:
        exported = Path(scratch) / "float.onnx"
        inputs = {"rows": "n", "answer": "", "eta": "", "helped": ""}
        write_onnx(single, example, exported, inputs=inputs, output="embedding")
        return quantized(exported) if int8 else exported.read_bytes()


def quantized(exported: Path) -> bytes:
    """Return the graph in ``exported`` with weights of 7 bits, one scale an output channel.

    Activations are rounded at run time, with one scale a matrix. With 8 bits, the sum of two
    products overflows on x86 processors without VNNI, and cosines fell to .987. With 7 bits they
    are above .999 everywhere.
    """
    with tempfile.TemporaryDirectory() as scratch:
        ready, small = (Path(scratch) / f"{name}.onnx" for name in ("ready", "small"))
        prepare(exported, ready)
        write_int8(ready, small)
        found = onnx.load(small)
    onnx.checker.check_model(found)
    return bytes(found.SerializeToString())


class _Single(nn.Module):
    """One text, given as rows of the table."""

    def __init__(self, network: Network, scale: Tensor) -> None:
        super().__init__()
        self.network = network
        self.scale = nn.Buffer(scale)

    def forward(self, rows: Tensor, answer: Tensor, eta: Tensor, helped: Tensor) -> Tensor:
        floats = (rows.float() * self.scale).unsqueeze(0)  # (1, n, table)
        mask = torch.ones_like(floats[:, :, 0])
        found: Tensor = self.network(floats, mask, answer.unsqueeze(0), eta, helped)
        return found.squeeze(0)
