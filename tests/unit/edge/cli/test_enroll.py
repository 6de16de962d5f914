"""`sotto enroll`."""

from __future__ import annotations

import errno
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.stub_cloud import StubCloud

from .conftest import Device


def _bare(device: Device) -> None:
    """Remove the tenant's settings."""
    for name in ("SOTTO_CLOUD_TENANT", "SOTTO_CLOUD_TOKEN_FILE"):
        device.environment.pop(name, None)


def test_a_new_device_is_let_in_and_the_configuration_says_so(
    new_device: Callable[..., Device], cloud: StubCloud
) -> None:
    device = new_device()
    _bare(device)
    code = cloud.code("acme", "hall")
    (told,) = device.json("enroll", code, "--address", cloud.address)
    assert (told["tenant"], told["name"], told["ends"]) == ("acme", "hall", None)
    written = tomllib.loads(Path(told["config"]).read_text())["cloud"]
    assert written["tenant"] == "acme"
    assert Path(written["token_file"]).read_text().strip() not in str(told)
    device.sotto("pull", cloud.address)
    assert device.config.cloud.tenant == "acme"
    error = device.sotto("enroll", code, code=7).stderr
    assert "fix:" in error
    again = cloud.code("acme", "shed")
    assert "shed of acme" in device.sotto("enroll", stdin=f"{again}\n").stdout


def test_it_needs_to_know_which_cloud(new_device: Callable[..., Device]) -> None:
    device = new_device()
    _bare(device)
    assert "--address" in device.sotto("enroll", "0000-0000-0000", code=3).stderr


def test_a_configuration_that_cannot_be_written_keeps_the_token_and_the_code(
    new_device: Callable[..., Device], cloud: StubCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = new_device()
    _bare(device)
    code, token = cloud.code("acme", "hall"), device.folder / "schlüssel 🔑"
    token.write_text("of before\n")
    asked = ("enroll", code, "--address", cloud.address, "--token-file", str(token))
    (told,) = device.json("config", "set", "privacy.level", "strong")
    file = Path(told["file"])
    before = file.read_text()
    with monkeypatch.context() as patch:
        patch.setattr("sottovoce.edge.cli.config.in_place_of", _full)
        device.sotto(*asked, code=5)
    assert file.read_text() == before
    assert token.read_text() == "of before\n"
    device.sotto(*asked)
    assert cloud.admits("acme", token.read_text().strip())
    assert tomllib.loads(file.read_text())["cloud"]["token_file"] == str(token)


def _full(file: Path) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
