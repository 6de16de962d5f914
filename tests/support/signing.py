"""Bundles signed and laid out as a pull leaves them."""

from __future__ import annotations

import shutil
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core.bundle.manifest import bundle_id
from sottovoce.core.bundle.signature import SIGNATURE, Signature
from sottovoce.edge.client.connection import KnownClouds
from sottovoce.edge.config import Config


def sign(folder: Path, key: Ed25519PrivateKey) -> bytes:
    """Signs the bundle in `folder`; gives the public key."""
    signature = Signature.make((folder / "manifest.json").read_bytes(), key)
    (folder / SIGNATURE).write_bytes(signature.to_bytes())
    return signature.key


def lay_pulled(config: Config, bundle: Path, key: Ed25519PrivateKey | None = None) -> Path:
    """A signed copy of `bundle` as the current one, its key noted; gives its folder."""
    copy = config.bundle.pulled / bundle_id((bundle / "manifest.json").read_bytes())
    shutil.copytree(bundle, copy)
    public = sign(copy, key or Ed25519PrivateKey.generate())
    KnownClouds(config.bundle).note("cloud.example.org", public)
    config.bundle.current.symlink_to(copy)
    return copy
