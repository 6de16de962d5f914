"""The provider's signing key, by which devices recognise the provider.

A bundle determines the data that a device sends, so the device accepts only bundles that its
provider signed. A missing key is created automatically, as ssh does with host keys. Providers that
keep the key off the server sign the bundle at build time. The public half lies beside the key, so
that a lost key is never replaced silently.
"""

from __future__ import annotations

from glob import escape
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import MANIFEST
from sottovoce.core.bundle.signature import Signature, show_key
from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.files import atomic, read_secret, sweep

SIGNING_KEY: Final = "signing.key"
"""The key's file in the server's state."""
_PUBLIC: Final = ".pub"


def signing_key(file: Path) -> Ed25519PrivateKey:
    """Return the private key in ``file`` (PEM, PKCS 8), created with mode 0600 at first use.

    Raises:
        ConfigError: it cannot be read or written, others can read it, it is not an Ed25519 key, or
            it is missing or does not match its public half.
    """
    public = file.with_name(f"{file.name}{_PUBLIC}")
    for each in (file, public):
        sweep(each.parent, escape(each.name))
    if (
        public.exists() and not file.exists()
    ):  # in this order, because the private key is written first
        raise _another(file, "is gone")
    key = _made_or_read(file)
    shown = f"{show_key(key.public_key().public_bytes_raw())}\n".encode()
    try:
        if not public.exists():
            with atomic(public) as out:
                out.write(shown)
        elif public.read_bytes() != shown:
            raise _another(file, f"does not fit {public.name}")
    except OSError as error:
        raise _unusable(public) from error
    return key


def _made_or_read(file: Path) -> Ed25519PrivateKey:
    if not file.exists():
        _make(file)
    try:
        key = serialization.load_pem_private_key(read_secret(file), None)
    except (OSError, ValueError, TypeError) as error:
        raise _unusable(file) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _unusable(file)
    return key


def _make(file: Path) -> None:
    """Write a new key, unless another process has done so: all processes use one key."""
    with atomic(file, once=True) as out:
        out.write(
            Ed25519PrivateKey.generate().private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


def signature_of(bundle: Bundle, file: Path) -> Signature:
    """Return the signature beside the manifest, or sign with the key in ``file``.

    Raises:
        DataLoss: the signature there does not fit. ConfigError: see `signing_key`.
    """
    manifest = (bundle.folder / MANIFEST).read_bytes()
    found = Signature.read(bundle.folder)
    if found is None:
        return Signature.make(manifest, signing_key(file))
    found.check(manifest)
    return found


def _another(file: Path, how: str) -> ConfigError:
    return ConfigError(
        f"the key {file} {how}",
        fix=f"bring it back from a backup; to sign with another, delete {file}{_PUBLIC} and tell "
        "the owners of devices: they refuse what a new key signed until they `sotto pull --key` it",
        subject=str(file),
    )


def _unusable(file: Path) -> ConfigError:
    return ConfigError(
        f"{file} is no private Ed25519 key that can be read",
        fix="bring it back, or name another; devices refuse bundles that a new key signed",
        subject=str(file),
    )
