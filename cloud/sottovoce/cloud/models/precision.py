"""Which numbers the trainer computes with: bfloat16 where the hardware multiplies it, else float32.

Why it is here: the backbone is frozen, so its weights need no float32 copy, and processors with
bfloat16 instructions go through it more than twice as fast. What is trained stays float32, as do
softmax and losses; products are made in bfloat16 (PyTorch's autocast).
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
    """Whether this processor has instructions for bfloat16 products."""
    found = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(found.get(name, False) for name in ("avx512_bf16", "amx_bf16"))


def to_bfloat16(module: nn.Module) -> None:
    """Turns the frozen parameters of ``module`` into bfloat16, in place."""
    for parameter in module.parameters():
        if not parameter.requires_grad and parameter.is_floating_point():
            parameter.data = parameter.data.to(torch.bfloat16)


@contextmanager
def computing(encoder: nn.Module) -> Iterator[None]:
    """For forward passes that are differentiated."""
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
