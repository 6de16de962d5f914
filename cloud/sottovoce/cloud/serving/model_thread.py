"""The backbone in memory, and the one thread that drives it.

Predictor, embedder and generator are peers on this thread. Each submits work, and gets the waiting
requests of all tenants together. Predictor and embedder use the same encoder. The generator brings
a separate decoder and shares the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.classifier import encoder_of
from sottovoce.cloud.models.precision import pack, to_bfloat16
from sottovoce.cloud.serving.batcher import BATCH, Batcher, passes

__all__ = ["DeviceThread", "ModelThread", "numbers"]

CPU_TOKENS, GPU_TOKENS = 512, 16_384
"""Tokens in one forward pass, with padding. More would leave a CPU's cache (docs/serving.md)."""

CPU_OVERHEAD, GPU_OVERHEAD = 32, 2_048
"""Cost of starting a pass, in tokens; a few hundred tokens do not fill a GPU."""

BATCH_PASSES: Final = 2
"""Passes in one batch, so that rows of similar length can be grouped."""


def numbers(asked: torch.dtype | None = None) -> torch.dtype:
    """Return the models' number format: as asked, or bfloat16 on a GPU and float32 elsewhere."""
    return asked or (torch.bfloat16 if torch.cuda.is_available() else torch.float32)


class DeviceThread(Batcher):
    """A batcher for work on one device, with any model.

    Args:
        batch: largest number of requests in a batch.
        dtype: of the models' numbers, see `numbers`.
        metrics: the counters.

    Attributes:
        device: of the models.
        dtype: of the models' numbers.
        metrics: the argument, or new counters.
    """

    def __init__(
        self,
        *,
        batch: int = BATCH,
        dtype: torch.dtype | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        gpu = torch.cuda.is_available()
        self.device = torch.device("cuda" if gpu else "cpu")
        self.dtype = numbers(dtype)
        self.metrics = metrics or Metrics()
        self._tokens_a_pass = GPU_TOKENS if gpu else CPU_TOKENS
        self._overhead = GPU_OVERHEAD if gpu else CPU_OVERHEAD
        super().__init__(
            batch=batch, tokens=BATCH_PASSES * self._tokens_a_pass, metrics=self.metrics
        )

    def passes(self, shapes: Sequence[tuple[int, int, int]]) -> list[list[int]]:
        """Return the rows to run together on this device, see `batcher.passes`."""
        return passes(shapes, self._tokens_a_pass, self._overhead)


class ModelThread(DeviceThread):
    """The thread that drives the backbone.

    Args:
        backbone: a freshly loaded model; it is moved, cast and hooked.
        packed: optimise float32 layers, see `pack`.
        options: see `DeviceThread`.

    Attributes:
        backbone: the argument.
        encoder: the part that reads text, frozen; for work on this thread only.
    """

    def __init__(self, backbone: LoadedBackbone, *, packed: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.backbone = backbone
        self.encoder: Any = encoder_of(backbone.model).to(self.device).requires_grad_(False)
        if self.dtype == torch.bfloat16:
            to_bfloat16(self.encoder)
        elif packed:
            pack(self.encoder)
