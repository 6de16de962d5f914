"""Number formats of computation, and faster products: bfloat16, float32, oneDNN.

The backbone is frozen, so it needs no float32 copy. Processors with bfloat16 instructions run it
more than twice as fast. Trained parameters, softmax and losses stay in float32, and products are
computed in bfloat16 (PyTorch's autocast).

Frozen float32 layers on a CPU can be multiplied by oneDNN, with weights laid out once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its customary name
from torch.nn.attention import SDPBackend, sdpa_kernel

__all__ = ["computing", "fast_bfloat16", "pack", "to_bfloat16"]


def fast_bfloat16() -> bool:
    """Return whether this processor has instructions for bfloat16 products."""
    found = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(found.get(name, False) for name in ("avx512_bf16", "amx_bf16"))


def to_bfloat16(module: nn.Module) -> None:
    """Convert the frozen parameters of ``module`` to bfloat16, in place."""
    for parameter in module.parameters():
        if not parameter.requires_grad and parameter.is_floating_point():
            parameter.data = parameter.data.to(torch.bfloat16)


@contextmanager
def computing(encoder: nn.Module) -> Iterator[None]:
    """Set the number format for forward passes with gradients."""
    first = next(encoder.parameters())
    if first.is_cuda:
        with torch.autocast("cuda", torch.bfloat16):
            yield
    elif first.dtype == torch.bfloat16:
        # On a CPU the flash kernel's backward pass in bfloat16 takes more than half of the step.
        with sdpa_kernel(SDPBackend.MATH), torch.autocast("cpu", torch.bfloat16):
            yield
    else:
        yield


WORTH: Final = 1.2
"""Minimum speed-up for the layout to be used."""

ROWS: Final = 256
_TIMES = 8


@torch.no_grad()
def pack(module: nn.Module, rows: int = ROWS) -> bool:
    """Speed up the float32 linear layers of ``module`` on a CPU, in place.

    Their weights become placeholders without memory. A layer that receives other weights, for
    example from `torch.func.functional_call`, uses those.

    Args:
        module: only its largest layer is timed.
        rows: approximate number of rows in a product.

    Returns:
        Whether the layers were changed.
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
    """Return whether a layer like this becomes faster; False if PyTorch lacks the operations."""
    inputs = torch.randn(rows, layer.in_features)
    try:
        weight = _laid_out(layer.weight)
        ours = _least(lambda: _product(inputs, weight, layer.bias))
    except (AttributeError, RuntimeError):
        return False
    return _least(lambda: F.linear(inputs, layer.weight, layer.bias)) > WORTH * ours


def _least(run: Callable[[], Any]) -> float:
    """Return the seconds of the quickest run; other load on the machine only adds time."""
    found = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)
