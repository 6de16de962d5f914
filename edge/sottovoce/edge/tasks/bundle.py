"""Open the bundle in use, for commands and the daemon.

A bundle decides which words replace a word, and how strong the noise is. So the files must be
exactly the ones that were pulled, signed with the provider's key that was noted. This module checks
both.
"""

from __future__ import annotations

from pathlib import Path

from sottovoce.core.bundle.folder import Bundle, check_bound
from sottovoce.core.bundle.manifest import MANIFEST
from sottovoce.core.bundle.signature import SIGNATURE, Signature
from sottovoce.core.errors import BundleMismatch, NotReady
from sottovoce.edge.client.known_clouds import KnownClouds
from sottovoce.edge.config import BundleConfig

__all__ = ["open_current", "signer"]


def open_current(config: BundleConfig) -> Bundle:
    """Open the bundle that ``current`` points to, and check it.

    The check covers its files, its signature and its numbers. A pulled bundle lies in a folder
    named after its id, which also checks its manifest. A bundle that the owner linked by hand has
    another folder name. Without a configured key it needs no signature, and its manifest is
    trusted.

    Raises:
        NotReady: there is no bundle (``sotto pull``).
        BundleMismatch, DataLoss: the bundle cannot be used.
    """
    folder = config.current.resolve()
    expected = folder.name if _pulled(config, folder) else None
    bundle = Bundle.open(folder, expected=expected, backbone=config.backbone or None)
    _signer(config, folder)
    check_bound(bundle)
    return bundle


def signer(config: BundleConfig) -> bytes | None:
    """Return the key that signed the current bundle; None for one linked by hand.

    Raises:
        NotReady: there is no bundle.
        DataLoss: the signature does not fit the manifest.
        BundleMismatch: this device does not know the signing key, or a required signature is
            missing.
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
