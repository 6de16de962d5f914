"""The signature of a bundle: Ed25519 over the manifest's exact bytes.

Hashes show that a bundle is intact, but not its maker. The manifest names every other file by its
hash, so one signature covers the whole bundle. It is plain Ed25519 (RFC 8032), which `openssl
pkeyutl -verify -rawin` checks as well. The library is imported where a signature is made or
checked, because most commands never open a bundle.

A device accepts only bundles that its provider signed. A missing signing key is created, as ssh
does with host keys. Providers that keep the key off the server sign when they build the bundle. The
public half lies beside the key, so that a lost key is never replaced silently.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from sottovoce.core.errors import ConfigError, DataLoss, InvalidInput, NotReady, Remedy
from sottovoce.core.platform.files import atomic, read_secret, sweep

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SIGNATURE: Final = "manifest.sig"
"""The signature's file, beside the manifest: 32 bytes of public key, 64 of signature."""

_KEY, _VALUE = 32, 64
_KIND: Final = "ed25519:"
_PRIME: Final = 2**255 - 19
_ORDER_8: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER: Final = frozenset({0, 1, _PRIME - 1, _PRIME, _PRIME + 1, _ORDER_8, _PRIME - _ORDER_8})
"""The y coordinates of the eight points whose order divides 8, canonical or not (RFC 8032, 5.1.7).

A key of small order fits many messages to signatures that nobody made: all zeros, about one
in four.
"""


@dataclass(frozen=True, slots=True)
class Signature:
    """The public key (32 bytes) that signed a manifest, and the signature (64 bytes)."""

    key: bytes
    value: bytes

    @classmethod
    def make(cls, manifest: bytes, key: Ed25519PrivateKey) -> Self:
        """Sign the bytes of a manifest; the same bytes and key give the same signature."""
        return cls(key.public_key().public_bytes_raw(), key.sign(manifest))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the signature in a bundle's folder, if any, without checking it.

        Raises:
            DataLoss: the file has the wrong length.
        """
        try:
            data = (folder / SIGNATURE).read_bytes()
        except FileNotFoundError:
            return None
        return cls.of(data[:_KEY], data[_KEY:])

    @classmethod
    def of(cls, key: bytes, value: bytes) -> Self:
        """Return a signature that was received from anyone, without checking it.

        Raises:
            NotReady: there is none. DataLoss: key or signature has the wrong length, or the key is
                of small order.
        """
        if not key and not value:
            raise NotReady(
                "the bundle carries no signature",
                fix="ask the provider to update sottovoce-cloud, which signs what it serves",
                subject="bundle",
            )
        if (len(key), len(value)) != (_KEY, _VALUE):
            raise DataLoss(
                "the bundle's signature is cut short or not one",
                fix=Remedy.SIGN_BUNDLE,
                subject=SIGNATURE,
            )
        _check_order(key)
        return cls(key, value)

    def to_bytes(self) -> bytes:
        """Return the bytes that `read` reads."""
        return self.key + self.value

    def check(self, manifest: bytes) -> None:
        """Check that ``key`` signed these bytes.

        Raises:
            DataLoss: it did not, or the key is of small order.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        _check_order(self.key)
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(self.value, manifest)
        except InvalidSignature as error:
            raise DataLoss(
                "the bundle's signature does not fit its manifest",
                fix=Remedy.SIGN_BUNDLE,
                subject=SIGNATURE,
            ) from error


def _weak(key: bytes) -> bool:
    return int.from_bytes(key, "little") % 2**255 in _SMALL_ORDER  # without the sign of x


def _check_order(key: bytes) -> None:
    if _weak(key):
        raise DataLoss(
            "the bundle's signature names a key of small order, with which anyone can sign",
            fix=Remedy.SIGN_BUNDLE,
            subject=SIGNATURE,
        )


def show_key(key: bytes) -> str:
    """Return a public key in the form that people read, compare and configure.

    >>> show_key(bytes(32))
    'ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
    """
    return _KIND + base64.b64encode(key).decode().rstrip("=")


def is_key(text: str) -> bool:
    """Return whether `read_key` can read the text."""
    try:
        return bool(read_key(text))
    except InvalidInput:
        return False


def read_key(text: str) -> bytes:
    """Read a key that `show_key` wrote.

    Raises:
        InvalidInput: not a key, or a key of small order.
    """
    try:
        kind, _, data = text.strip().partition(":")
        key = base64.b64decode(data + "=" * (-len(data) % 4), validate=True)
    except (binascii.Error, ValueError):
        kind, key = "", b""
    if f"{kind}:" != _KIND or len(key) != _KEY:
        raise InvalidInput(
            "not a public key",
            fix=f"give it as the provider shows it, {_KIND} and 43 letters and digits",
            subject="key",
        )
    if _weak(key):
        raise InvalidInput(
            "this public key is of small order: anyone can sign with it",
            fix="ask the provider for the public key of its bundles",
            subject="key",
        )
    return key


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
    # In this order, because the private key is written first.
    if public.exists() and not file.exists():
        raise _another(file, "is gone")
    key = _signing_key_in(file)
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


def _signing_key_in(file: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not file.exists():
        _make_signing_key(file)
    try:
        key = load_pem_private_key(read_secret(file), None)
    except (OSError, ValueError, TypeError) as error:
        raise _unusable(file) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _unusable(file)
    return key


def _make_signing_key(file: Path) -> None:
    """Write a new key, unless another process has done so: all processes use one key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    with atomic(file, once=True) as out:
        out.write(
            Ed25519PrivateKey.generate().private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


def _another(file: Path, how: str) -> ConfigError:
    return ConfigError(
        f"the key {file} {how}",
        fix=f"bring it back from a backup; to sign with another, delete {file}{_PUBLIC} and tell "
        "the owners of devices: they refuse what a new key signed until they pull with --key",
        subject=str(file),
    )


def _unusable(file: Path) -> ConfigError:
    return ConfigError(
        f"{file} is no private Ed25519 key that can be read",
        fix="bring it back, or name another; devices refuse bundles that a new key signed",
        subject=str(file),
    )
