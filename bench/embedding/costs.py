"""What a query costs the device: bytes, multiplications and milliseconds, for `bench.embedding`.

Every network runs as the device would run it: ONNX Runtime, one thread, int8 weights a channel.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from transformers import AutoModel

from bench.embedding.measures import milliseconds
from sottovoce.cloud.denoiser.export import quantized
from sottovoce.cloud.denoiser.network import Size, macs
from sottovoce.cloud.denoiser.paper import PaperNetwork, PaperSize, paper_macs
from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.denoiser import Denoiser

__all__ = ["LENGTHS", "costs"]

LENGTHS = (16, 64, 128)


def costs(
    bundle: Bundle, shipped: Denoiser, ids: NDArray[np.int32]
) -> list[dict[str, float | str]]:
    """A row for each way and length of text."""
    with tempfile.TemporaryDirectory() as scratch:
        paper, backbone = _paper(Path(scratch)), _backbone(Path(scratch))
    r, width = bundle.tokens.shape[1], shipped.width
    config = AutoModel.from_pretrained(backbones.resolve("default")).config
    rows: list[dict[str, float | str]] = []
    for n in LENGTHS:
        text = ids[:n].tolist()
        answer = np.full(width, width**-0.5, np.float32)
        eta = sum(shipped.eta_range) / 2
        vectors = np.random.default_rng(0).standard_normal((n, width)).astype(np.float32)

        def local(text: list[int] = text) -> object:
            return shipped.local(text)

        def helped(text: list[int] = text, answer: Any = answer, eta: float = eta) -> object:
            return shipped.denoise(text, answer, eta)

        def published(vectors: Any = vectors, answer: Any = answer) -> object:
            return paper.run(None, {"answer": answer, "noisy": vectors, "noise": vectors})

        def whole(text: list[int] = text) -> object:
            ids = np.array([[101, *text, 102]], np.int64)
            return backbone.run(None, {"ids": ids})

        runs: dict[str, Callable[[], object]] = {
            "(a) published": published,
            "(b) local": local,
            "(c) helped": helped,
            "whole backbone": whole,
        }
        taken = milliseconds(runs)
        layer = config.hidden_size * (4 * config.hidden_size + 2 * config.intermediate_size)
        m = n + 2
        multiplications = {
            "(a) published": paper_macs(PaperSize(), n),
            "(b) local": macs(Size(), n),
            "(c) helped": macs(Size(), n),
            "whole backbone": config.num_hidden_layers
            * (m * layer + 2 * m * m * config.hidden_size),
        }
        up = {"(a) published": 2 * width * n, "(c) helped": 2 * r * n}
        for name, ms in taken.items():
            rows.append(
                {
                    "tokens": n,
                    "on the device": name,
                    "ms": ms,
                    "million MACs": multiplications[name] / 1e6,
                    "bytes up": up.get(name, 0),
                    "bytes down": 4 * width if name in up else 0,
                }
            )
    return rows


class _Single(torch.nn.Module):
    def __init__(self, network: PaperNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, answer: torch.Tensor, noisy: torch.Tensor, noise: torch.Tensor
    ) -> torch.Tensor:
        mask = torch.ones_like(noisy[None, :, 0])
        found: torch.Tensor = self.network(answer[None], noisy[None], noise[None], mask)
        return found[0]


class _Pooled(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        found: torch.Tensor = states.mean(1)
        return found


def _paper(scratch: Path) -> Any:
    width = PaperSize().width
    example = torch.ones(width), torch.ones(5, width), torch.ones(5, width)
    names = ["answer", "noisy", "noise"]
    axes = {"noisy": {0: "n"}, "noise": {0: "n"}}
    return _session(_Single(PaperNetwork(PaperSize())), example, names, axes, scratch / "paper")


def _backbone(scratch: Path) -> Any:
    folder = backbones.resolve("default")
    model = AutoModel.from_pretrained(folder, attn_implementation="eager")
    example = (torch.ones(1, 7, dtype=torch.int64),)
    return _session(_Pooled(model), example, ["ids"], {"ids": {1: "n"}}, scratch / "backbone")


def _session(
    network: torch.nn.Module,
    example: tuple[torch.Tensor, ...],
    names: list[str],
    axes: dict[str, dict[int, str]],
    file: Path,
) -> Any:
    exported = file.with_suffix(".onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(),
            example,
            exported,
            dynamo=False,
            opset_version=18,
            input_names=names,
            dynamic_axes=axes,
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        quantized(exported), options, providers=["CPUExecutionProvider"]
    )
