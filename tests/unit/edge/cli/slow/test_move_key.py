"""`sotto move-key`: the key goes from place to place, cut off anywhere, and is never in none."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest

from sottovoce.core.errors import NotReady
from sottovoce.edge.cli import config
from sottovoce.edge.cli.config import write
from sottovoce.edge.state.database import only_one
from sottovoce.edge.state.device_key import KEY
from tests.support.key_places import give_credential, keyring_of
from tests.unit.edge.cli.conftest import Device

TEXT = "Anna was in the garden"


class Cut(BaseException):
    """A process that ends."""


def _released(device: Device) -> object:
    (answer,) = device.json("privatize", stdin=TEXT)
    return answer["text"]


def _secret(device: Device) -> bytes:
    return (device.config.agent.state / KEY).read_bytes()


def test_it_goes_to_the_keyring_and_back(device: Device) -> None:
    held: dict[tuple[str, str], str] = {}
    with keyring_of(held):
        before, secret = _released(device), _secret(device)
        (said,) = device.json("move-key", "keyring")
        assert said == {"place": "keyring", "removed": ["file"], "left": []}
        assert device.config.agent.key_place == "keyring"
        assert not (device.config.agent.state / KEY).exists()
        assert [*held.values()] == [secret.hex()]
        assert _released(device) == before
        device.sotto("rotate-key")
        after = _released(device)
        (said,) = device.json("move-key", "file")
        assert said == {"place": "file", "removed": ["keyring"], "left": []}
        assert held == {}
        assert _secret(device) == secret
        assert _released(device) == after
        (ledger,) = device.json("ledger")
        assert ledger["releases"] == 2


def test_it_goes_to_a_credential_and_back(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, secret = _released(device), _secret(device)
    said = device.sotto("move-key", "credential", code=NotReady.exit_code).output
    assert f"systemd-creds encrypt --name=sottovoce.key {device.config.agent.state}" in said
    give_credential(monkeypatch, tmp_path / "credentials", bytes(32))
    said = device.sotto("move-key", "credential", code=78).output
    assert "another key" in said
    assert _secret(device) == secret
    give_credential(monkeypatch, tmp_path / "credentials", secret)
    device.sotto("move-key", "credential")
    assert not (device.config.agent.state / KEY).exists()
    assert _released(device) == before
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    for command in ("rotate-key", "privatize"):
        said = device.sotto(command, stdin=TEXT, code=NotReady.exit_code).output
        assert "systemd-run" in said
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    device.sotto("rotate-key")
    said = device.sotto("move-key", "file").output
    assert "as root, remove /etc/credstore.encrypted/sottovoce.key" in said
    assert _secret(device) == secret
    assert _released(device) != before


def test_cut_off_anywhere_it_is_in_one_place_at_least_and_the_same_command_goes_on(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: dict[tuple[str, str], str] = {}
    with keyring_of(held):
        before, secret = _released(device), _secret(device)
        for there in ("keyring", "file"):
            number = 0
            while True:
                number += 1
                with monkeypatch.context() as patched:
                    calls = _cut_at(patched, number)
                    with suppress(Cut):
                        device.sotto("move-key", there)
                    reached = calls()
                assert _released(device) == before
                device.sotto("move-key", there)
                assert ((device.config.agent.state / KEY).exists(), bool(held)) == (
                    there == "file",
                    there == "keyring",
                )
                if reached < number:
                    break
                device.sotto("move-key", "file" if there == "keyring" else "keyring")
            assert number > 3
        assert _secret(device) == secret


def _cut_at(patched: pytest.MonkeyPatch, number: int) -> Callable[[], int]:
    """End the process at a given step; return the number of steps."""
    made = 0

    def counted(step: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            nonlocal made
            made += 1
            if made == number:
                raise Cut
            return step(*given, **named)

        return call

    for place in config.PLACES.values():
        for name in ("put", "remove", "settle"):
            patched.setattr(place, name, counted(getattr(place, name)))
    patched.setattr("sottovoce.edge.cli.config.write", counted(write))
    unlink = Path.unlink
    last = counted(unlink)  # of a key that is overwritten

    def removed(path: Path, missing_ok: bool = False) -> None:
        (last if path.name == KEY else unlink)(path, missing_ok=missing_ok)

    patched.setattr(Path, "unlink", removed)
    return lambda: made


def test_where_it_cannot_be_removed_that_is_no_success(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: dict[tuple[str, str], str] = {}
    with keyring_of(held):
        before, secret = _released(device), _secret(device)
        opened = Path.open

        def refused(path: Path, mode: str = "r", *given: Any, **named: Any) -> IO[Any]:
            if path.name == KEY and mode == "r+b":
                raise PermissionError(errno.EACCES, "no")
            return opened(path, mode, *given, **named)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "open", refused)
            said = device.sotto("move-key", "keyring", code=78).output
        assert f"still here: {device.config.agent.state / KEY}" in said
        assert "fix: " in said
        assert (_secret(device), [*held.values()]) == (secret, [secret.hex()])
        device.sotto("move-key", "keyring")
        with monkeypatch.context() as patched:
            errors = pytest.importorskip("keyring.errors")

            def kept(*_: str) -> None:
                raise errors.PasswordDeleteError

            patched.setattr("keyring.delete_password", kept)
            said = device.sotto("move-key", "file", code=78).output
        assert "still here: in the keyring" in said
        (said_then,) = device.json("move-key", "file")
        assert (said_then["removed"], held) == (["keyring"], {})
        assert _released(device) == before


def test_not_under_a_running_agent(device: Device) -> None:
    _released(device)
    with only_one(device.config.agent.state):
        said = device.sotto("move-key", "credential", code=NotReady.exit_code).output
    assert "already running" in said


def test_a_setting_of_the_environment_is_not_overruled(device: Device) -> None:
    held: dict[tuple[str, str], str] = {}
    with keyring_of(held):
        before = _released(device)
        device.environment["SOTTO_AGENT_KEY_PLACE"] = "file"
        said = device.sotto("move-key", "keyring", code=78).output
        assert "SOTTO_AGENT_KEY_PLACE" in said
        assert _released(device) == before
        device.environment["SOTTO_AGENT_KEY_PLACE"] = "keyring"
        device.sotto("move-key", "keyring")
        assert _released(device) == before
