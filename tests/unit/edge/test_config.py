"""Wrong settings are refused with their place and the nearest known name."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import pytest

from sottovoce.core.errors import ConfigError
from sottovoce.edge.config import load
from tests.support.paths import ROOT


def _write(folder: Path, text: str) -> Path:
    file = folder / "agent.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_defaults_follow_the_xdg_folders() -> None:
    environ = {"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_DATA_HOME": "/d", "XDG_RUNTIME_DIR": "/r"}
    config = load(environ=environ)
    assert config.agent.listen == "unix:/r/sottovoce/agent.sock"
    assert config.agent.state == Path("/s/sottovoce")
    assert config.bundle.path == Path("/d/sottovoce")
    assert config.source is None


def test_an_empty_home_is_looked_up_as_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(environ={"HOME": ""}) == load(environ={})
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    with pytest.raises(ConfigError) as refused:
        load(environ={})
    assert "HOME" in refused.value.fix


def test_without_a_runtime_folder_the_socket_lies_in_the_state_folder(tmp_path: Path) -> None:
    file = _write(tmp_path, '[agent]\nstate = "/var/lib/x"\n')
    assert load(file, {"HOME": "/h"}).agent.listen == "unix:/var/lib/x/agent.sock"
    assert load(environ={"HOME": "/h"}).agent.listen == (
        "unix:/h/.local/state/sottovoce/agent.sock"
    )


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    file = _write(tmp_path, '[privacy]\nlevel = "light"\nledger_limit = 5\n')
    environ = {"HOME": "/h", "SOTTO_PRIVACY_LEVEL": "strong", "SOTTO_PRIVACY_UNSURE_BELOW": "0.5"}
    privacy = load(file, environ).privacy
    assert (privacy.level, privacy.ledger_limit, privacy.unsure_below) == ("strong", 5.0, 0.5)


def test_a_list_of_names_is_read_from_the_file_and_the_environment(tmp_path: Path) -> None:
    file = _write(tmp_path, '[chat]\ntrusted_tools = ["search", "send-mail"]\n')
    assert load(file, {"HOME": "/h"}).chat.trusted_tools == ("search", "send-mail")
    environ = {"HOME": "/h", "SOTTO_CHAT_TRUSTED_TOOLS": "search, open_page"}
    assert load(file, environ).chat.trusted_tools == ("search", "open_page")
    assert load(environ={"HOME": "/h"}).chat.trusted_tools == ()


def test_the_file_is_found_by_variable_and_by_place(tmp_path: Path) -> None:
    named = _write(tmp_path, '[privacy]\nlevel = "light"\n')
    assert load(environ={"SOTTO_CONFIG": str(named)}).privacy.level == "light"
    (tmp_path / "sottovoce").mkdir()
    usual = _write(tmp_path / "sottovoce", '[privacy]\nlevel = "strong"\n')
    config = load(environ={"XDG_CONFIG_HOME": str(tmp_path)})
    assert (config.privacy.level, config.source) == ("strong", usual)


def test_paths_expand_home_and_variables(tmp_path: Path) -> None:
    file = _write(tmp_path, '[agent]\nstate = "~/s"\n[bundle]\npath = "${B}/x"\n')
    config = load(file, {"HOME": "/h", "B": "/b"})
    assert config.agent.state == Path("/h/s")
    assert config.bundle.path == Path("/b/x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[privacy]\nlevle = "light"\n', "did you mean 'level'"),
        ('[privcy]\nlevel = "light"\n', "did you mean 'privacy'"),
        ("[privacy]\nseed = 1\n", "unknown setting privacy.seed"),
        ("[privacy]\nlevel = 3\n", "privacy.level has the wrong type.*a string"),
        ("[privacy]\nledger_limit = true\n", "wrong type.*a number"),
        ("[privacy]\nplain_tokens = 1.5\n", "wrong type.*a whole number"),
        ("[privacy]\nunsure_below = 1.5\n", "from 0 to 1"),
        ('[privacy]\nleast_policy = "some"\n', "names, content"),
        ("[privacy]\nlargest_eta = 0\n", "a positive number"),
        ("[privacy]\nlargest_eta = nan\n", "a positive number"),
        ('[bundle]\nkey = "ssh-rsa AAAA"\n', "ed25519:"),
        ("[privacy]\nledger_limit = -1\n", "0 for no limit"),
        ("[privacy]\nledger_limit = nan\n", "0 for no limit"),
        ('[privacy]\nlevel = ""\n', "level is not set.*strong"),
        ('[privacy]\nlevel = "medium"\n', "'medium'.*strong.*balanced.*light.*attack:0.3"),
        ('[privacy]\nmechanism = "pct2t.v9"\n', "'pct2t.v9'.*pct2t.v2"),
        ('[agent]\nstate = "a\\u0000b"\n', "NUL"),
        (
            '[chat]\ntrusted_tools = "search"\n',
            "trusted_tools has the wrong type.*a list of strings",
        ),
        ("[chat]\ntrusted_tools = [1]\n", "a list of strings"),
        ('[chat]\ntrusted_tools = ["a b"]\n', "names of functions"),
        ('[chat]\ntrusted_tools = [""]\n', "names of functions"),
        ('[tagger]\nbackend = "spacey"\n', '"onnx" or "spacy"'),
        ('[tagger]\nbackend = "spacy"\n', "installed spaCy pipeline"),
        ('[agent]\ntls_cert = "c.pem"\n', "together"),
        ('[agent]\nstate = "$NOWHERE/x"\n', "NOWHERE, which is not set"),
        ("level = 1\n", "unknown setting"),
        ("[privacy\n", "not TOML .at line 1, column 9. .correct it"),
        ("x = " + "[" * 5_000, "not TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    file = _write(tmp_path, text)
    with pytest.raises(ConfigError, match=said) as caught:
        load(file, {"HOME": "/h"})
    assert str(file) in str(caught.value)
    assert caught.value.exit_code == 78


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SOTTO_PRIVACY_LEVL", "light", "did you mean 'level'"),
        ("SOTTO_PRIVACY_LEDGER_LIMIT", "much", "a number"),
        ("SOTTO_PRIVACY_SEED", "1", "unknown setting"),
        ("SOTTO_CLOUD_ADRESS", "h:1", "did you mean 'address'"),
        ("SOTTO_CLOUD_STATES", "s", "unknown setting cloud.states"),
    ],
)
def test_mistakes_in_the_environment_are_named(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        load(environ={"HOME": "/h", name: value})
    assert name in str(caught.value)


def test_the_providers_settings_in_the_same_shell_are_passed_over(tmp_path: Path) -> None:
    environ = {"HOME": "/h", "SOTTO_CLOUD_CONFIG": "cloud.toml", "SOTTO_CLOUD_STATE": "s"}
    config = load(environ=environ | {"SOTTO_CLOUD_ADDRESS": "h:1"})
    assert config.cloud.address == "h:1"
    with pytest.raises(ConfigError, match=r"unknown setting cloud\.state"):
        load(_write(tmp_path, '[cloud]\nstate = "s"\n'), {"HOME": "/h"})


@pytest.mark.parametrize("name", ["SOTTO_CHAT_UPSTREAM", "SOTTO_AGENT_TRACE"])
def test_a_password_in_a_url_is_not_quoted(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ={"HOME": "/h", name: "https://ann:word@example.org:1"})
    assert "word" not in str(caught.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.toml", {})
    binary = tmp_path / "latin.toml"
    binary.write_bytes(b'[cloud]\ntenant = "\xe9"\n')
    with pytest.raises(ConfigError, match=r"not UTF-8 .byte 18"):
        load(binary, {})


def _keys() -> set[str]:
    config = load(environ={"HOME": "/h"})
    return {
        f"{section}.{key}"
        for section in ("agent", "bundle", "privacy", "hide", "cloud", "chat", "predict", "tagger")
        for key in getattr(config, section).__slots__
    }


@pytest.mark.parametrize("link", ["agent.toml", "", ".."])
@pytest.mark.parametrize("loops", [False, True])
def test_defaults_do_not_replace_a_file_behind_a_broken_link(
    tmp_path: Path, link: str, loops: bool
) -> None:
    environ = {"HOME": str(tmp_path)}
    folder = tmp_path / ".config" / "sottovoce"
    place = {"agent.toml": folder / "agent.toml", "": folder, "..": tmp_path / ".config"}[link]
    load(environ=environ)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(place if loops else tmp_path / "not mounted")
    with pytest.raises(ConfigError) as caught:
        load(environ=environ)
    assert str(folder / "agent.toml") in str(caught.value)
    assert caught.value.fix
    place.unlink()
    target = tmp_path / "dotfiles"
    target.mkdir()
    place.symlink_to(target if link != "agent.toml" else target / "agent.toml")
    if link == "agent.toml":
        (target / "agent.toml").touch()
    assert load(environ=environ).privacy == load(environ={"HOME": "/nowhere"}).privacy


def test_no_setting_fixes_the_noise() -> None:
    assert "privacy.level" in _keys()
    assert not [key for key in _keys() if "seed" in key or "random" in key]


def test_the_example_file_states_the_defaults() -> None:
    example = ROOT / "edge" / "packaging" / "agent.toml"
    environ = {"HOME": "/h", "XDG_RUNTIME_DIR": "/r"}
    assert dataclasses.replace(load(example, environ), source=None) == load(environ=environ)


def test_the_example_file_names_every_setting() -> None:
    example = ROOT / "edge" / "packaging" / "agent.toml"
    section, named = "", set()
    for line in example.read_text(encoding="utf-8").splitlines():
        setting = re.fullmatch(r"(?:# )?(\w+) = .+", line)
        if line.startswith("["):
            section = line.strip("[]")
        elif setting:
            named.add(f"{section}.{setting[1]}")
    assert named == _keys()
