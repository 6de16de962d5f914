"""Write a torch module as an ONNX graph, for the encoder and the denoiser."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from sottovoce.core.text.onnx_models import runtime

OPSET: Final = 18


def write_onnx(
    module: nn.Module,
    example: tuple[Tensor, ...],
    target: Path,
    *,
    inputs: Mapping[str, str],
    output: str,
) -> None:
    """Write the graph of ``module`` to ``target``, with unchanged weights.

    Args:
        module: in evaluation mode; returns one tensor.
        example: inputs for tracing.
        target: a file in a folder that exists.
        inputs: their names, in the order of ``example``. Each has the name of its first dimension
            if the length varies, else "".
        output: name of the output.
    """
    with warnings.catch_warnings():
        # The newer exporter needs another library and writes a graph twice as long.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            example,
            target,
            dynamo=False,
            opset_version=OPSET,
            input_names=[*inputs],
            output_names=[output],
            dynamic_axes={name: {0: length} for name, length in inputs.items() if length},
        )


def prepare(exported: Path, ready: Path) -> None:
    """Write the graph again, with inferred shapes and folded constants."""
    runtime()
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(exported, ready, skip_symbolic_shape=True)


def write_int8(ready: Path, small: Path) -> None:
    """Write the graph with one byte a weight of each product, and a scale an output channel."""
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
