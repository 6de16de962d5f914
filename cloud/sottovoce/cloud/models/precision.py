"""Which numbers the trainer computes with: bfloat16 where the hardware multiplies it, else float32.

Why it is here: the backbone is frozen, so its weights need no float32 copy, and processors with
bfloat16 instructions go through it more than twice as fast. What is trained stays float32, as do
softmax and losses; products are made in bfloat16 (PyTorch's autocast).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

__all__ = ["computing", "fast_bfloat16", "to_bfloat16"]


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
