"""What a query costs the device: bytes, multiplications and milliseconds, for `bench.embedding`.

Every network runs as the device would run it: ONNX Runtime, one thread, int8 weights a channel.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from transformers import AutoModel

from bench.console import Figures
from sottovoce.cloud.denoiser.export import quantized
from sottovoce.cloud.denoiser.network import Size, macs
from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.denoiser import Denoiser

__all__ = ["LENGTHS", "costs"]

LENGTHS = (16, 64, 128)
_ROUNDS = 25


def costs(bundle: Bundle, shipped: Denoiser, ids: NDArray[np.int32]) -> list[Figures]:
    """A row for each way and length of text: the denoiser alone, with an answer, and the whole
    backbone on the device."""
    with tempfile.TemporaryDirectory() as scratch:
        backbone, config = _exported(Path(scratch) / "backbone.onnx")
    answer = np.full(shipped.width, shipped.width**-0.5, np.float32)
    eta, h = sum(shipped.eta_range) / 2, config.hidden_size
    layer = h * (4 * h + 2 * config.intermediate_size)
    rows = []
    for n in LENGTHS:
        text, m = ids[:n].tolist(), n + 2
        whole = {"ids": np.array([[101, *text, 102]], np.int64)}
        taken = _milliseconds(
            {
                "local": partial(shipped.local, text),
                "helped": partial(shipped.denoise, text, answer, eta),
                "whole backbone": partial(backbone.run, None, whole),
            }
        )
        products = dict.fromkeys(taken, macs(Size(), n))
        products["whole backbone"] = config.num_hidden_layers * (m * layer + 2 * m * m * h)
        for name, ms in taken.items():
            asks = name == "helped"
            rows.append(
                {
                    "tokens": n,
                    "on the device": name,
                    "ms": ms,
                    "million MACs": products[name] / 1e6,
                    "bytes up": 2 * bundle.tokens.shape[1] * n if asks else 0,
                    "bytes down": 4 * shipped.width if asks else 0,
                }
            )
    return rows


def _milliseconds(runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Median wall clock of each, interleaved in random order; the first round is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    order = np.random.default_rng(0)
    for counted in range(_ROUNDS + 1):
        for name in order.permutation([*runs]).tolist():  # each follows every other
            start = time.perf_counter()
            runs[name]()
            if counted:
                taken[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(times) for name, times in taken.items()}


class _Pooled(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        found: torch.Tensor = states.mean(1)
        return found


def _exported(file: Path) -> tuple[Any, Any]:
    """The whole backbone for ONNX Runtime, and its configuration."""
    model = AutoModel.from_pretrained(backbones.resolve("default"), attn_implementation="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Pooled(model).eval(),
            (torch.ones(1, 7, dtype=torch.int64),),
            file,
            dynamo=False,
            opset_version=18,
            input_names=["ids"],
            dynamic_axes={"ids": {1: "n"}},
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(quantized(file), options, providers=providers), model.config
