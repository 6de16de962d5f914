"""A stand-in for a denoiser, over any bundle: for tests of what happens around it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle


class PlainDenoiser:
    """Locally the mean of the token vectors; with the cloud's answer, halfway to it."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def local(self, ids: Sequence[int]) -> NDArray[np.float32]:
        width = self._bundle.manifest.backbone.hidden_size
        return _unit(np.resize(self._bundle.tokens[list(ids)].mean(axis=0), width))

    def denoise(
        self, ids: Sequence[int], answer: NDArray[np.float32], eta: float
    ) -> NDArray[np.float32]:
        return _unit(self.local(ids) + answer)


def _unit(row: NDArray[np.float32]) -> NDArray[np.float32]:
    return (row / np.linalg.norm(row)).astype(np.float32)
