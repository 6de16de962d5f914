"""The parts that need torch: the tracer of trained networks, optimum, and states to compare."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.methods.lora import targets
from sottovoce.cloud.models.rows import first_position
from sottovoce.core.bundle.encoder import MAX_TOKENS, Layer
from sottovoce.core.errors import NotReady
from sottovoce.core.text.onnx_models import runtime
from sottovoce.models.graphs import OPSET, Exact, Pooled, refused


def pooled(folder: Path) -> Pooled:
    """Return the function that computes pooled states with the backbone in ``folder``."""
    return _pooled(backbones.load(str(folder)).model)


def _pooled(model: Any) -> Pooled:
    @torch.no_grad()
    def mean(ids: NDArray[np.int64]) -> NDArray[np.float32]:
        states = model(input_ids=torch.from_numpy(ids)[None]).last_hidden_state
        found: NDArray[np.float32] = states[0].mean(0).numpy()
        return found

    return mean


def by_optimum(folder: Path) -> Exact:
    """Return the graph of any text encoder that optimum knows.

    Raises:
        NotReady: optimum is not installed.
        InvalidInput: optimum does not know this kind of backbone.
    """
    loaded = backbones.load(str(folder))
    model = loaded.model
    with tempfile.TemporaryDirectory() as scratch:
        exported, ready = (Path(scratch) / f"{name}.onnx" for name in ("float", "ready"))
        _export(model, exported)
        prepare(exported, ready)
        network = onnx.load(ready).SerializeToString()
    layers = tuple(
        Layer(name, layer.in_features, layer.out_features)
        for name in targets(model, False)
        for layer in [model.get_submodule(name)]
    )
    positions = (loaded.positions or MAX_TOKENS) - first_position(model)
    return Exact(network, layers, positions, 0, _pooled(model))


def _export(model: Any, exported: Path) -> None:
    """Write the float graph by optimum's configuration for the model's architecture.

    The configuration names the inputs of `_Adapted` in place of token ids. Its patches of the
    model and of torch stay as they are.
    """
    runtime()  # before optimum imports onnxruntime, whose telemetry this turns off
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns of every shape that it takes for a constant
        try:
            from optimum.exporters.onnx import export
            from optimum.exporters.onnx.config import TextEncoderOnnxConfig
            from optimum.exporters.tasks import TasksManager
        except ImportError as error:
            raise NotReady(
                "optimum is not installed",
                fix="pip install 'sottovoce-models[export]'",
                subject="exporter",
            ) from error
        kind = model.config.model_type
        try:
            known = TasksManager.get_exporter_config_constructor(
                "onnx", model, task="feature-extraction", library_name="transformers"
            )(model.config)
        except (KeyError, ValueError) as error:
            raise refused(f"optimum does not export backbones of type {kind!r}") from error
        if not isinstance(known, TextEncoderOnnxConfig):
            raise refused(f"to optimum a backbone of type {kind!r} is no text encoder")
        adapted = _Adapted(model).eval()
        example = {
            "embeddings": torch.randn(3, model.config.hidden_size),
            "weights": torch.ones(3),
            "lora": torch.randn(2, sum(adapted.sides)),
        }
        axes = {"embeddings": {0: "n"}, "weights": {0: "n"}, "lora": {0: "rank"}}
        replaced = {
            "inputs": property(lambda _: axes),
            "outputs": property(lambda _: {"pooled": {}}),
            "generate_dummy_inputs": lambda *_, **__: example,
        }
        device = type("DeviceOnnxConfig", (type(known),), replaced)
        export(adapted, device(adapted.config, task="feature-extraction"), exported, opset=OPSET)


class _Adapted(nn.Module):
    """One text through any text encoder, with low-rank updates of its layers as inputs."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.config = copy.copy(model.config)  # optimum changes it
        self.updated = [model.get_submodule(name) for name in targets(model, False)]
        self.sides = [
            side for layer in self.updated for side in (layer.in_features, layer.out_features)
        ]

    def forward(self, embeddings: Tensor, weights: Tensor, lora: Tensor) -> dict[str, Tensor]:
        halves = torch.split(lora, self.sides, 1)
        with ExitStack() as undo:
            for layer, a, b in zip(self.updated, halves[::2], halves[1::2], strict=True):
                undo.callback(layer.register_forward_hook(_adding(a, b)).remove)
            mask = torch.ones_like(weights).long()[None]
            states = self.model(inputs_embeds=embeddings[None], attention_mask=mask)
        return {"pooled": weights @ states.last_hidden_state[0]}


def _adding(a: Tensor, b: Tensor) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    """Return a hook that adds the update with A (rank, inputs) and B (rank, outputs)."""

    def add(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output + (inputs[0] @ a.T) @ b

    return add


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
