"""The keys of clouds that this device has met, stored at first use, as in ssh.

An impostor cannot hand the device another bundle later, whatever certificate it has. Its bundle
would have another key's signature, and the device refuses that key until the owner confirms it.
"""

from __future__ import annotations

from sottovoce.core.bundle.signature import read_key, show_key
from sottovoce.core.errors import BundleMismatch, DataLoss, InvalidInput
from sottovoce.core.platform.files import atomic
from sottovoce.core.rpc.address import split_address
from sottovoce.edge.config import BundleConfig

__all__ = ["KNOWN_CLOUDS", "KnownClouds"]

KNOWN_CLOUDS = "known_clouds"
"""The file's name, in the folder of bundles."""


class KnownClouds:
    """The file ``known_clouds`` among the bundles.

    Each line has an address and a public key.
    """

    def __init__(self, config: BundleConfig) -> None:
        self._file = config.path / KNOWN_CLOUDS
        self._configured = read_key(config.key) if config.key else None

    def check(self, address: str, key: bytes) -> None:
        """Check that the cloud at `address` may sign with `key`.

        It may if it did before, or if the device has not met it yet.

        Raises:
            BundleMismatch: the owner configured another key, or another is stored.
            DataLoss: the file of keys is damaged.
        """
        if self._configured is not None:
            self._check_configured(key)
            return
        noted = self._noted().get(_place(address))
        if noted is not None and noted != key:
            raise BundleMismatch(
                f"{address} signs bundles with {show_key(key)}, and not as before with "
                f"{show_key(noted)}",
                fix="somebody may stand in for it; if the provider confirms the new key, "
                f"run `sotto pull --key {show_key(key)}`",
                subject="bundle.key",
            )

    def check_any(self, key: bytes) -> None:
        """Check that `key` is the configured key, or else any stored cloud's key.

        Raises:
            BundleMismatch: it is not. DataLoss: the file of keys is damaged.
        """
        if self._configured is not None:
            self._check_configured(key)
        elif key not in self._noted().values():
            raise BundleMismatch(
                f"the bundle is signed with {show_key(key)}, a key that was never noted here",
                fix=f"run `sotto pull`, which notes keys in {self._file}",
                subject="bundle.key",
            )

    def note(self, address: str, key: bytes) -> None:
        """Store `key` as the signing key of the cloud at `address`."""
        noted = self._noted()
        if noted.get(_place(address)) == key:
            return
        lines = (noted | {_place(address): key}).items()
        with atomic(self._file) as file:
            file.write("".join(f"{place} {show_key(each)}\n" for place, each in lines).encode())

    def _check_configured(self, key: bytes) -> None:
        if key != self._configured:
            raise BundleMismatch(
                f"the bundle is signed with {show_key(key)}, which is not the configured key",
                fix="pull from the right cloud, or change bundle.key in the configuration",
                subject="bundle.key",
            )

    def _noted(self) -> dict[str, bytes]:
        try:
            lines = self._file.read_text(encoding="ascii").splitlines()
            pairs = (line.split() for line in lines)
            return {place: read_key(key) for place, key in pairs}
        except FileNotFoundError:
            return {}
        except (ValueError, InvalidInput) as error:
            raise DataLoss(
                f"{self._file} is damaged",
                fix="bring it back, or remove it and run `sotto pull`, which trusts anew",
                subject=str(self._file),
            ) from error


def _place(address: str) -> str:
    host, port = split_address(address)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
