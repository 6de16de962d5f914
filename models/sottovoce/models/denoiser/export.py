"""Writes a trained denoiser for devices: an int8 ONNX network, an int8 token table, a description.

Why it is here: the device runs it without torch, in few megabytes, and must be able to tell whether
it fits the bundle. Weights become one byte each with one scale an output channel, the form that
ONNX Runtime's kernels for arm64 take; what leaves here is certified against the float network on
real passages, or refused.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sottovoce.core.privacy.denoiser import DESCRIPTION, FORMAT, NETWORK, TABLE
from sottovoce.models.denoiser.network import Network
from sottovoce.models.denoiser.training import Model
from sottovoce.models.onnx_export import prepare, write_int8, write_onnx

__all__ = ["quantized", "rounded", "to_onnx", "write"]


@dataclass(frozen=True, slots=True)
class Rounded:
    """The token table in whole numbers: Ints2d (tokens, table), and Floats1d (table,) scales."""

    rows: NDArray[np.int8]
    scale: NDArray[np.float32]


def rounded(table: Tensor) -> Rounded:
    """One scale a column: rows are added up, so what counts is the error, not its share."""
    values = table.detach().cpu().numpy()
    scale = np.maximum(np.abs(values).max(axis=0), 1e-8) / 127
    return Rounded(np.rint(values / scale).astype(np.int8), scale.astype(np.float32))


def write(model: Model, folder: Path, facts: Mapping[str, Any]) -> None:
    """Writes ``denoiser.onnx``, ``table.npy`` and ``denoiser.json`` into ``folder``.

    Args:
        model: trained.
        folder: made where it is missing.
        facts: for the description; see `sottovoce.core.privacy.denoiser` for what it must say.
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
    """The graph for one text of n tokens.

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
    """The graph in ``exported`` with weights of 7 bits in a byte, one scale an output channel;
    activations are rounded as they come, with one scale a matrix.

    Of 8 bits, the sum of two products does not fit where x86 processors without VNNI add them up:
    there cosines fell to .987, here they are above .999 everywhere.
    """
    with tempfile.TemporaryDirectory() as scratch:
        ready, small = (Path(scratch) / f"{name}.onnx" for name in ("ready", "small"))
        prepare(exported, ready)
        write_int8(ready, small)
        found = onnx.load(small)
    onnx.checker.check_model(found)
    return bytes(found.SerializeToString())


class _Single(nn.Module):
    """One text, rows as the table holds them."""

    def __init__(self, network: Network, scale: Tensor) -> None:
        super().__init__()
        self.network = network
        self.scale = nn.Buffer(scale)

    def forward(self, rows: Tensor, answer: Tensor, eta: Tensor, helped: Tensor) -> Tensor:
        floats = (rows.float() * self.scale).unsqueeze(0)  # (1, n, table)
        mask = torch.ones_like(floats[:, :, 0])
        found: Tensor = self.network(floats, mask, answer.unsqueeze(0), eta, helped)
        return found.squeeze(0)
