"""The backbone in memory, and the one thread that drives it.

Why it is here: predictor and embedder answer from the same weights, and neither is the other's.
Each is a peer on this thread: it submits work, which is given the requests of all tenants that
wait for it, and in it may use the encoder. The generator is one more, with a decoder of its own: it
shares the device.
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
"""Of one forward pass, padding included. On a CPU more only leaves the cache (docs/serving.md)."""

CPU_OVERHEAD, GPU_OVERHEAD = 32, 2_048
"""What starting a pass costs, in tokens; a GPU has hardly begun with a few hundred."""

BATCH_PASSES: Final = 2
"""Passes that what is answered at once may fill, so that rows of like length can be found."""


def numbers(asked: torch.dtype | None = None) -> torch.dtype:
    """What models compute with: as asked, or bfloat16 on a GPU and float32 elsewhere."""
    return asked or (torch.bfloat16 if torch.cuda.is_available() else torch.float32)


class DeviceThread(Batcher):
    """A batcher for work on one device, whatever model that is with.

    Args:
        batch: requests answered at once, at most.
        dtype: of the models' numbers, see `numbers`.
        metrics: what is counted.

    Attributes:
        device: where models are.
        dtype: of their numbers.
        metrics: as given, or counters of its own.
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
        """Which rows to run together on this device, see `passes.passes`."""
        return passes(shapes, self._tokens_a_pass, self._overhead)


class ModelThread(DeviceThread):
    """The thread that drives the backbone.

    Args:
        backbone: a freshly loaded model; it is moved, cast and hooked, so it is spent.
        packed: let float32 layers be multiplied by whatever is faster, see `pack`.
        options: see `DeviceThread`.

    Attributes:
        backbone: as given.
        encoder: the part of its model that reads text, frozen; for work on this thread only.
    """

    def __init__(self, backbone: LoadedBackbone, *, packed: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.backbone = backbone
        self.encoder: Any = encoder_of(backbone.model).to(self.device).requires_grad_(False)
        if self.dtype == torch.bfloat16:
            to_bfloat16(self.encoder)
        elif packed:
            pack(self.encoder)
