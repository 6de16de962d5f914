"""The device's secret key: its purpose and its place.

Released texts keep some words in the clear, so they are encrypted at rest. So is the noise key. A
repeated document must be recognised although the document is not stored. One 32-byte key serves
both, through a derived key for each purpose.

A thief of the disk gets the key too if it is a file. systemd can hand the key to the service alone.
It is then a credential, which the machine's own key or its TPM seals. The system's keyring opens
when its user logs in.

The database knows the mark of its key wherever the key lies, so another key is an error. If the key
lies outside the state folder, a file there says so. Otherwise half a state could be taken for a new
state.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import importlib
import logging
import os
import secrets
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sottovoce.core.errors import ConfigError, DataLoss, NotReady
from sottovoce.core.platform.files import atomic, disk, read_secret, sync_folder

AFRESH = "a fresh ledger starts at 0, so note what was spent"

BYTES = 32
_NONCE = 12


class Seal:
    """AES-256-GCM and HMAC-SHA256 under keys derived from one secret of 32 bytes."""

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESGCM(hmac.digest(secret, b"sottovoce seal v1", hashlib.sha256))
        self._names = hmac.digest(secret, b"sottovoce names v1", hashlib.sha256)
        self.mark = self.name(b"mark")
        """32 bytes that tell this key from any other; stored with the sealed data."""

    @classmethod
    def make(cls, path: Path) -> Seal:
        """Make a new key in a file of mode 0600; it is on disk when this returns."""
        secret = secrets.token_bytes(BYTES)
        with disk(path):
            path.unlink(missing_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secret)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(path.parent)
        return cls(secret)

    @classmethod
    def read(cls, path: Path) -> Seal:
        """Return the key in the file.

        Raises:
            DataLoss: there is no key, or its length is wrong.
            ConfigError: others can read it.
        """
        how = "damaged"
        try:
            with disk(path):
                secret = read_secret(path)
        except FileNotFoundError:
            secret, how = b"", "gone, and what it sealed cannot be read"
        if len(secret) != BYTES:
            raise DataLoss(
                f"the key {path} is {how}",
                fix=f"bring the file back, or move {path.parent} away to start afresh; {AFRESH}",
                subject=str(path),
            )
        return cls(secret)

    def seal(self, data: bytes, place: bytes) -> bytes:
        """Return `data` encrypted for a place.

        It opens only with the same `place`, so rows cannot be swapped.
        """
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._cipher.encrypt(nonce, data, place)

    def new_secret(self, place: bytes) -> bytes:
        """Return 32 random bytes, sealed for ``place`` before any caller sees them."""
        return self.seal(secrets.token_bytes(BYTES), place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """Return the decrypted data."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], place)
        except (InvalidTag, ValueError) as error:
            raise DataLoss(
                "the agent's stored state was altered or belongs to another key",
                fix="bring back the key file and the database from the same backup",
                subject="state",
            ) from error

    def name(self, *parts: bytes) -> bytes:
        """Return 32 bytes that stand for `parts`, and reveal nothing without the key."""
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._names, framed, "sha256")


KEY: Final = "agent.key"
"""The file that holds the key."""
ELSEWHERE: Final = "agent.key.elsewhere"
"""The file that says that the key lies elsewhere."""
HALVES: Final = (KEY, ELSEWHERE)
"""Every state has one of these files."""
CREDENTIAL_NAME: Final = "sottovoce.key"
"""The name of the credential in systemd."""

_SERVICE: Final = "sottovoce"
_STORE: Final = f"/etc/credstore.encrypted/{CREDENTIAL_NAME}"
_LOAD: Final = f"LoadCredentialEncrypted={CREDENTIAL_NAME}:{_STORE}"
_log = logging.getLogger(__name__)


class DeviceKey(ABC):
    """A place for the key.

    Attributes:
        half: the file in the state that stands for the key.
    """

    half: str

    @abstractmethod
    def begin(self, folder: Path) -> Seal:
        """Make the key of a new state.

        `half` is first written under the name `beginning`. It gets its final name once the database
        knows the key.
        """

    @abstractmethod
    def read(self, folder: Path, half: Path) -> Seal:
        """Return the existing key, for which the file ``half`` stands.

        Raises:
            DataLoss, ConfigError, NotReady: the key is missing, invalid or unreadable.
        """

    @abstractmethod
    def settle(self, folder: Path, seal: Seal) -> None:
        """Check that the state has no other key, and make sure that `half` exists.

        Called once the key is known to be the database's.

        Raises:
            ConfigError: another place holds another key.
        """

    @abstractmethod
    def put(self, folder: Path, secret: bytes) -> None:
        """Copy a key from another place to this one.

        Raises:
            ConfigError: another key lies here, or the owner has to put it here.
        """

    @abstractmethod
    def secret(self, folder: Path) -> bytes:
        """Return the key itself."""

    @abstractmethod
    def remove(self, folder: Path) -> str:
        """Remove the key from this place.

        Returns:
            What another person has to do to remove it; empty if it is removed.

        Raises:
            ConfigError, NotReady: it cannot be removed, and may still lie here.
        """

    @abstractmethod
    def told(self, folder: Path) -> str:
        """Return a description of the place, for people."""


def beginning(folder: Path, half: str) -> Path:
    """Return the path that `DeviceKey.begin` writes."""
    return folder / f".{half}.new"


class InFile(DeviceKey):
    """A file of mode 0600 in the state."""

    half = KEY

    def begin(self, folder: Path) -> Seal:
        return Seal.make(beginning(folder, KEY))

    def read(self, folder: Path, half: Path) -> Seal:
        if not half.exists() and (folder / ELSEWHERE).exists():
            raise ConfigError(
                f"the key of {folder} lies elsewhere, and not in a file",
                fix="set agent.key_place to where it lies, or bring it back with "
                "`sotto move-key file`",
                subject="agent.key_place",
            )
        return Seal.read(half)

    def settle(self, folder: Path, seal: Seal) -> None:
        with disk(folder):  # the key no longer lies elsewhere
            (folder / ELSEWHERE).unlink(missing_ok=True)

    def put(self, folder: Path, secret: bytes) -> None:
        file = folder / KEY
        if not file.exists():
            with atomic(file, once=True) as out:
                out.write(secret)
        if self.secret(folder) != secret:  # another process may have been first
            raise _two(f"the file {file}")

    def secret(self, folder: Path) -> bytes:
        Seal.read(folder / KEY)
        return (folder / KEY).read_bytes()

    def told(self, folder: Path) -> str:
        return str(folder / KEY)

    def remove(self, folder: Path) -> str:
        file = folder / KEY  # overwritten first, as far as a disk does that
        with disk(file):
            with file.open("r+b") as out:
                out.write(bytes(BYTES))
                out.flush()
                os.fsync(out.fileno())
            file.unlink()
            sync_folder(folder)
        return ""


class _Elsewhere(DeviceKey):
    """Common code of the places outside the state."""

    half = ELSEWHERE

    def begin(self, folder: Path) -> Seal:
        seal = Seal(self._first(folder))
        with atomic(beginning(folder, ELSEWHERE)) as out:
            out.write(seal.mark)
        return seal

    def read(self, folder: Path, half: Path) -> Seal:
        return Seal(self.secret(folder))

    def settle(self, folder: Path, seal: Seal) -> None:
        """Warn at every start while a file holds the key too; see `DeviceKey.settle`.

        A removal that was cut off may leave a file that is only overwritten. It is deleted.
        """
        file = folder / KEY
        overwritten = file.exists() and file.read_bytes() == bytes(BYTES)
        if file.exists() and not overwritten:
            if Seal.read(file).mark != seal.mark:
                raise ConfigError(
                    f"another key than the one in use lies in {file}",
                    fix="move that file away; the database was not written with it",
                    subject=str(file),
                )
            _log.warning("the key still lies in %s too: `sotto move-key` removes it", file)
        if not (folder / ELSEWHERE).exists():
            with atomic(folder / ELSEWHERE) as out:
                out.write(seal.mark)
        if overwritten:  # only now, when another file stands for the key
            with disk(file):
                file.unlink()

    def _first(self, folder: Path) -> bytes:
        """Return the key for a new state."""
        return self.secret(folder)


class InCredential(_Elsewhere):
    """A systemd credential named `CREDENTIAL_NAME`, which only the service gets."""

    @property
    def given(self) -> Path | None:
        """The credential's file, if systemd gave one to this process."""
        found = os.environ.get("CREDENTIALS_DIRECTORY")
        file = Path(found, CREDENTIAL_NAME) if found else None
        return file if file is not None and file.exists() else None

    def secret(self, folder: Path) -> bytes:
        file = self.given
        if file is None:
            raise NotReady(
                "the device's key is a credential of the service, which this process was not given",
                fix="ask the running agent; a command that opens the state itself is run as "
                f"`sudo systemd-run --pipe --wait -p User=USER -p {_LOAD} sotto ...`",
                subject="agent.key_place",
            )
        with disk(file):
            secret = read_secret(
                file,
                "the credential",
                fix="have systemd hand it over (LoadCredentialEncrypted=), or chmod 600 it",
                subject="agent.key_place",
            )
        if len(secret) != BYTES:
            raise DataLoss(
                f"the credential {CREDENTIAL_NAME} is no key of {BYTES} bytes",
                fix="give the service the one that the state was made with",
                subject="agent.key_place",
            )
        return secret

    def put(self, folder: Path, secret: bytes) -> None:
        """Check that the credential is this key: only root can seal one."""
        try:
            given = self.secret(folder)
        except NotReady as error:
            raise NotReady(
                "the service has no such credential yet",
                fix=f"as root: `systemd-creds encrypt --name={CREDENTIAL_NAME} {folder / KEY} "
                f"{_STORE}`, then this as `systemd-run --pipe --wait -p User=USER -p {_LOAD} sotto "
                "move-key credential`",
                subject="agent.key_place",
            ) from error
        if given != secret:
            raise _two(f"the credential {CREDENTIAL_NAME}")

    def told(self, folder: Path) -> str:
        return f"in the credential {CREDENTIAL_NAME}"

    def remove(self, folder: Path) -> str:
        """Return how root removes it."""
        return (
            f"the key lies in the credential {CREDENTIAL_NAME} too: as root, remove {_STORE} and "
            f"the service's {_LOAD}"
        )


class InKeyring(_Elsewhere):
    """The keyring of the user's session, through the library ``keyring``.

    The key is stored as hexadecimal digits, under the path of the state's folder.
    """

    def _first(self, folder: Path) -> bytes:
        """Return the stored key, or a new one if there is none.

        A stored key may belong to a state that was moved away. It is kept, because no other key
        opens that state.
        """
        held = self._asked("get_password", folder)
        if held is None:
            self.put(folder, secrets.token_bytes(BYTES))
        return self.secret(folder)

    def secret(self, folder: Path) -> bytes:
        held = self._asked("get_password", folder)
        if held is None:
            raise DataLoss(
                f"the keyring has no key for {folder}",
                fix=f"set agent.key_place back to 'file', as {folder / KEY} is there; then `sotto "
                "move-key keyring` takes it to the keyring"
                if (folder / KEY).exists()
                else "unlock or bring back the keyring of the user who runs the agent",
                subject="agent.key_place",
            )
        return _from_text(held)

    def put(self, folder: Path, secret: bytes) -> None:
        held = self._asked("get_password", folder)
        if held is None:
            self._asked("set_password", folder, secret.hex())
            held = self._asked("get_password", folder)
        if held is None:
            raise ConfigError(
                "the keyring keeps nothing",
                fix="choose another backend of keyring's (`keyring --list-backends`)",
                subject="agent.key_place",
            )
        if _from_text(held) != secret:
            raise _two("the keyring")

    def told(self, folder: Path) -> str:
        return "in the keyring"

    def remove(self, folder: Path) -> str:
        self._asked("delete_password", folder)
        return ""

    def _asked(self, what: str, folder: Path, *given: str) -> Any:
        try:
            keyring = importlib.import_module("keyring")
            errors = importlib.import_module("keyring.errors")
        except ModuleNotFoundError as error:
            raise ConfigError(
                "the system's keyring needs keyring, which is not installed",
                fix="pip install 'sottovoce-edge[keyring]'",
                subject="agent.key_place",
            ) from error
        try:
            return getattr(keyring, what)(_SERVICE, str(folder.absolute()), *given)
        except errors.KeyringError as error:
            # Not chained: a backend's message may quote the key.
            raise NotReady(
                f"no keyring can be opened here ({type(error).__name__})",
                fix="log in and unlock it; a machine without a desktop session has none (no Secret "
                "Service): keep the key in a file or a credential there",
                subject="agent.key_place",
            ) from None


PLACES: Final[dict[str, type[DeviceKey]]] = {
    "file": InFile,
    "credential": InCredential,
    "keyring": InKeyring,
}


def key_in(place: str) -> DeviceKey:
    """Return the place with this name in `PLACES`."""
    return PLACES[place]()


def _from_text(text: str) -> bytes:
    try:
        secret = binascii.unhexlify(text)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != BYTES:
        raise DataLoss(
            "what the keyring holds is no key of this device",
            fix="bring the keyring back from a backup",
            subject="agent.key_place",
        )
    return secret


def _two(where: str) -> ConfigError:
    return ConfigError(
        f"{where} holds another key than the one in use",
        fix="nothing was changed; find out which state it belongs to, and move it away if to none",
        subject="agent.key_place",
    )
