"""Places for a device's key: systemd's credentials in a folder, and a keyring in a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sottovoce.edge.state.device_key import CREDENTIAL_NAME


def give_credential(monkeypatch: pytest.MonkeyPatch, folder: Path, secret: bytes) -> Path:
    """Hands this process a credential as systemd does; gives its file."""
    folder.mkdir(exist_ok=True)
    file = folder / CREDENTIAL_NAME
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_bytes(secret)
    file.chmod(0o400)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    return file


@contextmanager
def keyring_of(held: dict[tuple[str, str], str]) -> Iterator[None]:
    """Let the library keyring store secrets in ``held``; skip without the library."""
    keyring = pytest.importorskip("keyring")
    backend = pytest.importorskip("keyring.backend")
    errors = pytest.importorskip("keyring.errors")

    class Held(backend.KeyringBackend):  # type: ignore[misc,name-defined]
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            return held.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            held[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            if held.pop((service, username), None) is None:
                raise errors.PasswordDeleteError(username)

    before: Any = keyring.get_keyring()
    keyring.set_keyring(Held())
    try:
        yield
    finally:
        keyring.set_keyring(before)
