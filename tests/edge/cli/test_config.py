"""`sotto config`: one setting changed, the rest of the file as its owner wrote it."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.core.errors import ConfigError
from sottovoce.edge.cli.config import changed

from .conftest import Device

FILE = """\
# mine
[privacy]
level = "light"  # for now
# policy = "names"

[cloud]
address = "a.example.org"
"""


@pytest.fixture
def device(new_device: Callable[..., Device]) -> Device:
    return new_device()


def _file(device: Device) -> Path:
    return device.folder / "home/.config/sottovoce/agent.toml"


def test_a_setting_is_written_read_and_listed(device: Device) -> None:
    assert device.sotto("config", "get", "privacy.level").stdout == "balanced\n"
    device.sotto("config", "set", "privacy.level", "attack:0.3")
    assert device.sotto("config", "get", "privacy.level").stdout == "attack:0.3\n"
    device.sotto("config", "set", "privacy.ledger_limit", "500")
    device.sotto("config", "set", "cloud.ca_file", '/a "b"/ca.pem')
    (told,) = device.json("config", "list")
    assert told["file"] == str(_file(device))
    assert told["settings"]["privacy.ledger_limit"] == 500.0
    assert told["settings"]["cloud.ca_file"] == '/a "b"/ca.pem'
    assert _file(device).stat().st_mode & 0o077 == 0
    assert 'privacy.level = "attack:0.3"' in device.sotto("config", "list").stdout


def test_a_changed_file_stays_whose_it_was(device: Device) -> None:
    file = _file(device)
    file.parent.mkdir(parents=True)
    file.write_text(FILE)
    file.chmod(0o640)
    owner = (54321, 54322) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(file, *owner)
    device.sotto("config", "set", "privacy.level", "strong")
    now = file.stat()
    assert "strong" in file.read_text()
    assert (now.st_uid, now.st_gid, now.st_mode & 0o777) == (*owner, 0o640)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes what is another's: run it as root")
def test_root_follows_no_link_in_a_folder_of_anothers(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = device.folder / "of root"
    guarded.write_text("before\n")
    guarded.chmod(0o600)
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders let nobody else in
        file = Path(name, "agent.toml")
        file.write_text(FILE)
        for path in (file.parent, file):
            path.chmod(0o750)
            os.chown(path, 54321, 54322)
        link = file.with_name(f".agent.toml.sotto-{'0' * 16}")
        link.symlink_to(guarded)
        asked = ("--config", str(file), "config", "set", "privacy.level", "strong")
        assert "fix:" in device.sotto(*asked, code=78).stderr
        link.unlink(missing_ok=True)
        device.sotto(*asked)
        assert (os.geteuid(), file.stat().st_uid) == (0, 54321)
        file.unlink()
        file.symlink_to(guarded)
        device.sotto(*asked, code=78)
    assert guarded.read_text() == "before\n"
    assert (guarded.stat().st_uid, guarded.stat().st_mode & 0o777) == (0, 0o600)


def test_a_list_is_set_and_shown_with_commas(device: Device) -> None:
    device.sotto("config", "set", "chat.trusted_tools", "search, send-mail")
    assert 'trusted_tools = ["search", "send-mail"]' in _file(device).read_text()
    assert device.sotto("config", "get", "chat.trusted_tools").stdout == "search,send-mail\n"
    assert device.json("config", "get", "chat.trusted_tools")[0]["value"] == ["search", "send-mail"]
    assert (
        "names of functions"
        in device.sotto("config", "set", "chat.trusted_tools", "search mail", code=78).stderr
    )
    device.sotto("config", "set", "chat.trusted_tools", "")
    assert device.sotto("config", "get", "chat.trusted_tools").stdout == "\n"


def test_what_would_not_load_is_not_written(device: Device) -> None:
    _file(device).parent.mkdir(parents=True)
    _file(device).write_text(FILE)
    for name, value, said in (
        ("privacy.levle", "light", "did you mean 'privacy.level'"),
        ("privcy.level", "light", "did you mean 'privacy.level'"),
        ("privacy.policy", "none", "privacy.policy"),
        ("privacy.ledger_limit", "-1", "out of range"),
        ("privacy.ledger_limit", "much", "cannot be written"),
        ("privacy.ledger_limit", "1\n[chat]", "change it by hand"),
    ):
        told = device.sotto("config", "set", name, value, code=78).stderr
        assert said in told
        assert "agent.toml." not in told  # what was written aside is nobody's
    assert _file(device).read_text() == FILE
    assert list(_file(device).parent.iterdir()) == [_file(device)]
    assert "did you mean" in device.sotto("config", "get", "privacy.levle", code=78).stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("privacy.level", '"strong"'),
        ("privacy.policy", '"all"'),
        ("cloud.tenant", '"ann"'),
        ("chat.keep_days", "7"),
    ],
)
def test_the_rest_of_the_file_stays(name: str, value: str) -> None:
    after = changed(FILE, name, value)
    section, key = name.split(".")
    wanted = tomllib.loads(FILE)
    wanted.setdefault(section, {})[key] = tomllib.loads(f"v = {value}")["v"]
    assert tomllib.loads(after) == wanted
    assert after.startswith("# mine\n[privacy]\n")
    assert '# policy = "names"' in after
    assert changed(after, name, value) == after
    assert tomllib.loads(changed("", name, value)) == {section: {key: wanted[section][key]}}


def test_what_is_written_in_another_way_is_left_to_its_owner() -> None:
    for text in ('privacy = { level = "light" }\n', 'privacy.level = "light"\n'):
        with pytest.raises(ConfigError):
            changed(text, "privacy.level", '"strong"')
