"""Frozen float32 layers multiplied by oneDNN, with weights laid out for it once.

Why it is here: PyTorch multiplies float32 on a CPU with MKL, which on processors of other makers
than its own reached less than half the speed of oneDNN, also part of PyTorch (docs/serving.md has
the figures). Nearly all of a forward pass is such products. `pack` measures both and takes the
faster, so that it does nothing where there is nothing to gain.

The operations are those PyTorch's own compiler uses when weights are frozen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its customary name

__all__ = ["pack"]

WORTH: Final = 1.2
"""How many times as fast it must be."""

ROWS: Final = 256
_TIMES = 8


@torch.no_grad()
def pack(module: nn.Module, rows: int = ROWS) -> bool:
    """Speeds up the linear layers of ``module``, in place, if they are float32 on a CPU.

    Their weights become placeholders without memory. A layer that is given other weights, as
    `torch.func.functional_call` does, uses those.

    Args:
        module: its layers are measured by their largest.
        rows: they are multiplied by at once, about.

    Returns:
        Whether it was worth it.
    """
    layers = [found for found in module.modules() if type(found) is nn.Linear and _fits(found)]
    if not layers or not _faster(max(layers, key=lambda layer: layer.weight.numel()), rows):
        return False
    for layer in layers:
        weight = _laid_out(layer.weight)
        stand_in = nn.Parameter(layer.weight.new_zeros(()).expand(layer.weight.shape), False)
        layer.weight = stand_in
        layer.forward = partial(_forward, layer, weight, stand_in)  # type: ignore[method-assign]
    return True


def _fits(layer: nn.Linear) -> bool:
    weight = layer.weight
    return (
        weight.device.type == "cpu" and weight.dtype == torch.float32 and not weight.requires_grad
    )


def _forward(layer: nn.Linear, weight: Tensor, stand_in: Tensor, inputs: Tensor) -> Tensor:
    if layer.weight is not stand_in:
        return F.linear(inputs, layer.weight, layer.bias)
    return _product(inputs, weight, layer.bias)


def _laid_out(weight: Tensor) -> Tensor:
    found: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
    return found


def _product(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
    return found


def _faster(layer: nn.Linear, rows: int) -> bool:
    """Whether a layer like this one gains; also False where PyTorch lacks the operations."""
    inputs = torch.randn(rows, layer.in_features)
    try:
        weight = _laid_out(layer.weight)
        ours = _least(lambda: _product(inputs, weight, layer.bias))
    except (AttributeError, RuntimeError):
        return False
    return _least(lambda: F.linear(inputs, layer.weight, layer.bias)) > WORTH * ours


def _least(run: Callable[[], Any]) -> float:
    """Seconds, of the quickest of some runs: what else the machine does only adds."""
    found = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)
