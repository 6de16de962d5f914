"""Opens an adapter for a server of one model.

Why it is here: predictor and generator refuse the same two things, and a tenant should be told of
either in the same words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.adapters import Adapter
from sottovoce.core.errors import BundleMismatch, NotReady

__all__ = ["check_bundle", "opened"]


_SERVED: Final = {
    "classification": ("backbone", "write, and has no labels", "have it write: `sotto generate`"),
    "generation": ("decoder", "classify, and does not write", "ask it for predictions"),
}
"""By task: what its model is called, what an adapter of the other is for, and the way out."""


def opened(folder: Path, task: str, sha256: str) -> Adapter:
    """The adapter in ``folder``.

    Args:
        folder: what a trainer saved.
        task: what the server's model is for, as `TrainingOptions` calls it.
        sha256: of that model.

    Raises:
        NotReady: it was trained for the other task. BundleMismatch: on another model.
        DataLoss, SottovoceError: see `adapters.load`.
    """
    model, other, fix = _SERVED[task]
    adapter = adapters.load(folder)
    if adapter.task != task:
        raise NotReady(f"the adapter was trained to {other}", fix=fix, subject="adapter")
    if adapter.backbone_sha256 != sha256:
        raise BundleMismatch(
            f"the adapter was trained on another {model} than this server runs",
            fix=f"customise again, or start the server with the adapter's --{model}",
            subject="adapter",
        )
    return adapter


def check_bundle(asked: str, trained: str) -> None:
    """Whether a text privatised with the bundle ``asked`` is for an adapter ``trained`` with one.

    Raises:
        BundleMismatch: it is of another.
    """
    if asked != trained:
        raise BundleMismatch(
            f"the adapter was trained on bundle {trained}, not on the text's",
            fix="customise again with the bundle the device holds now",
            subject="bundle_id",
        )
