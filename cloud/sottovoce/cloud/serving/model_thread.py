"""Drive models on one device: the thread of the backbone, and what runs together in a pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.models.backbone import LoadedBackbone, pack, to_bfloat16
from sottovoce.cloud.models.classifier import encoder_of
from sottovoce.cloud.models.rows import Unpadded
from sottovoce.cloud.serving.batcher import BATCH, Batcher


def passes(shapes: Sequence[tuple[int, int, int]], tokens: int, overhead: int) -> list[list[int]]:
    """Return the rows to run together, with little padding and few passes.

    Rows are sorted by length, and the cheapest of all ways to cut that order is used.

    Args:
        shapes: of every row (model, front, length): the model it needs, the number of virtual
            tokens before it, the number of its tokens. Fronts and texts are padded apart.
        tokens: of one pass, padding included; a longer row goes alone.
        overhead: additional cost of a pass, in tokens.

    Returns:
        Indices into ``shapes``, each once; all rows of a pass need the same model. Passes come in
        the order of their first rows, because a fair queue put the most urgent rows first.
    """
    order = sorted(range(len(shapes)), key=shapes.__getitem__)
    costs, starts = [0], [0]  # of the cheapest cut of the first n rows: its cost, its last pass
    for end in range(1, len(order) + 1):
        last_model, front, length = shapes[order[end - 1]]
        cheapest: tuple[int, int] | None = None
        for start in range(end - 1, -1, -1):
            model, *sizes = shapes[order[start]]
            front, length = max(front, sizes[0]), max(length, sizes[1])
            padded = (end - start) * (front + length)
            if cheapest is not None and (model != last_model or padded > tokens):
                break
            found = (costs[start] + padded + overhead, start)
            cheapest = found if cheapest is None else min(cheapest, found)
        assert cheapest is not None
        costs.append(cheapest[0])
        starts.append(cheapest[1])
    cut: list[list[int]] = []
    end = len(order)
    while end:
        cut.append(order[starts[end] : end])
        end = starts[end]
    return sorted(cut, key=min)


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
        return passes(shapes, self._tokens_a_pass, self._overhead)


class ModelThread(DeviceThread):
    """The thread that drives the backbone.

    Args:
        backbone: a freshly loaded model; it is moved, cast and hooked.
        packed: optimise layers, see `pack`.
        options: see `DeviceThread`.

    Attributes:
        encoder: the part that reads text, frozen; for work on this thread only.
        unpadded: passes over the encoder without padding; None on a GPU and for families that
            `Unpadded` does not know.
    """

    def __init__(self, backbone: LoadedBackbone, *, packed: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.backbone = backbone
        self.encoder: Any = encoder_of(backbone.model).to(self.device).requires_grad_(False)
        if self.dtype == torch.bfloat16:
            to_bfloat16(self.encoder)
        if packed:
            pack(self.encoder)
        self.unpadded = Unpadded.of(self.encoder) if self.device.type == "cpu" else None

    def encoder_passes(self, shapes: Sequence[tuple[int, int, int]]) -> list[list[int]]:
        """Return the encoder's rows to run together; those that `unpadded` runs keep their order.

        Args:
            shapes: as in `passes`; model 0 is the encoder with its own weights.
        """
        if self.unpadded is None:
            return self.passes(shapes)
        cut: list[list[int]] = []
        padded: list[int] = []
        left = 0
        for place, (model, *sizes) in enumerate(shapes):
            if model:
                padded.append(place)
                continue
            if sum(sizes) > left:
                cut.append([])
                left = self._tokens_a_pass
            cut[-1].append(place)
            left -= sum(sizes)
        cut += [
            [padded[at] for at in chosen]
            for chosen in self.passes([shapes[place] for place in padded])
        ]
        return sorted(cut, key=min)
