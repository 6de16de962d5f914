"""The bundle in use, opened by commands and daemon alike.

Why it is here: a bundle decides what every word is replaced by, and how loud the noise is. Whoever
uses one must have the very bytes that were pulled, from the provider whose key was noted, and this
is where they are held against both.
"""

from __future__ import annotations

from pathlib import Path

from sottovoce.core.bundle import soundness
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import MANIFEST
from sottovoce.core.bundle.signature import SIGNATURE, Signature
from sottovoce.core.errors import BundleMismatch, NotReady
from sottovoce.edge.client.known_clouds import KnownClouds
from sottovoce.edge.config import BundleConfig

__all__ = ["open_current", "signer"]


def open_current(config: BundleConfig) -> Bundle:
    """The bundle that ``current`` points to now: its files, its signature, its numbers checked.

    A pulled bundle lies in a folder named after its id, so that its manifest is checked too. One
    that the owner linked by hand has no such name, and where no key is configured need not be
    signed: there, what the manifest says holds.

    Raises:
        NotReady: there is none (``sotto pull``). BundleMismatch, DataLoss: it cannot be used.
    """
    folder = config.current.resolve()
    expected = folder.name if _pulled(config, folder) else None
    bundle = Bundle.open(folder, expected=expected, backbone=config.backbone or None)
    _signer(config, folder)
    soundness.check(bundle)
    return bundle


def signer(config: BundleConfig) -> bytes | None:
    """The public key that vouches for the current bundle; None for one linked by hand.

    Raises:
        NotReady: there is none. DataLoss: the signature does not fit the manifest.
        BundleMismatch: it is signed with no key that this device knows, or not at all though it
            must be.
    """
    if not config.current.exists():
        raise NotReady("there is no bundle, so nobody vouches for one", fix="run `sotto pull`")
    return _signer(config, config.current.resolve())


def _signer(config: BundleConfig, folder: Path) -> bytes | None:
    if not _pulled(config, folder) and not config.key:
        return None
    signature = Signature.read(folder)
    if signature is None:
        raise BundleMismatch(
            f"the bundle has no {SIGNATURE}, so nobody vouches for it",
            fix="run `sotto pull`" + (", or take bundle.key out" if config.key else ""),
            subject="bundle.key",
        )
    KnownClouds(config).check_any(signature.key)
    signature.check((folder / MANIFEST).read_bytes())
    return signature.key


def _pulled(config: BundleConfig, folder: Path) -> bool:
    return folder.parent == config.pulled.resolve()
