"""The bundle in use, opened by commands and daemon alike.

Why it is here: a bundle decides what every word is replaced by, and how loud the noise is. Whoever
uses one must have the very bytes that were pulled, and this is where they are held against the id.
"""

from __future__ import annotations

from sottovoce.core.bundle.folder import Bundle
from sottovoce.edge.config import BundleConfig

__all__ = ["open_current"]


def open_current(config: BundleConfig) -> Bundle:
    """The bundle that ``current`` points to now, with all its files checked.

    A pulled bundle lies in a folder named after its id, so that its manifest is checked too. One
    that the owner linked by hand has no such name: there, what the manifest says holds.

    Raises:
        NotReady: there is none (``sotto pull``). BundleMismatch, DataLoss: it cannot be used.
    """
    folder = config.current.resolve()
    pulled = folder.parent == config.pulled.resolve()
    return Bundle.open(
        folder, expected=folder.name if pulled else None, backbone=config.backbone or None
    )
