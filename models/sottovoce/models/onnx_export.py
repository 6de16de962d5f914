"""Writes a torch module as an ONNX graph; encoder and denoiser are exported alike."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from sottovoce.core.text.onnx_models import runtime

__all__ = ["prepare", "write_int8", "write_onnx"]

_OPSET: Final = 18


def write_onnx(
    module: nn.Module,
    example: tuple[Tensor, ...],
    target: Path,
    *,
    inputs: Mapping[str, str],
    output: str,
) -> None:
    """Writes the graph that ``module`` computes to ``target``, with weights as they are.

    Args:
        module: in evaluation mode; gives one tensor.
        example: what it is traced with.
        target: a file in a folder that exists.
        inputs: their names, in the order of ``example``, each with that of its first dimension
            where that is any length, else empty.
        output: its name.
    """
    with warnings.catch_warnings():
        # The newer exporter needs another library and writes a graph twice as long.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            example,
            target,
            dynamo=False,
            opset_version=_OPSET,
            input_names=[*inputs],
            output_names=[output],
            dynamic_axes={name: {0: length} for name, length in inputs.items() if length},
        )


def prepare(exported: Path, ready: Path) -> None:
    """Writes the graph anew with shapes found and what is constant worked out."""
    runtime()
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(exported, ready, skip_symbolic_shape=True)


def write_int8(ready: Path, small: Path) -> None:
    """Writes the graph with a byte for each weight of a product and a scale an output channel."""
    runtime()
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        ready,
        small,
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        weight_type=QuantType.QInt8,
        reduce_range=True,
    )
