"""Half-written files in the agent's folders go at the next start."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from sottovoce.core.platform.files import atomic
from sottovoce.edge.config import Config
from sottovoce.edge.state.adapters import ADAPTERS, AdapterFolder
from tests.support.agent import configured, opened, running
from tests.support.leftovers import age, left_of


def _left(config: Config) -> list[Path]:
    """Half a file in every place that the agent writes to."""
    state, token = config.agent.state, config.cloud.token_file
    assert token is not None
    assert config.source is not None
    adapter = state / ADAPTERS / "a1"
    adapter.mkdir(parents=True)
    state.chmod(0o700)
    files = [
        left_of(state / "owner.token"),
        left_of(adapter / "versions.json"),
        left_of(adapter / f".partial-{'0' * 64}.safetensors"),
        left_of(config.bundle.path / "known_clouds"),
        left_of(token),
        left_of(token.with_name(f"{token.name}.0123456789abcdef.new")),
        left_of(config.source),
    ]
    for file in files:
        file.write_text("swordfish")
    link = left_of(config.bundle.path / "current")
    link.symlink_to("nowhere")
    age(*files, link)
    return [*files, link]


def _device(folder: Path, bundle: Path) -> Config:
    config = configured(folder, bundle=bundle)
    (folder / "agent.toml").touch()
    return dataclasses.replace(config, source=folder / "agent.toml")


def test_a_daemon_tidies_as_it_starts(tmp_path: Path, small_bundle_folder: Path) -> None:
    config = _device(tmp_path, small_bundle_folder)
    left = _left(config)
    token = config.cloud.token_file
    assert token is not None
    others = [  # beside the token, and nothing that the agent writes
        left_of(token.with_name("notes")),
        *(token.with_name(f".{name}.20261123") for name in (token.name, "agent.toml")),
    ]
    for other in others:
        other.touch()
    folder = token.with_name(".agent.toml.20250101")
    folder.mkdir()
    age(*others, folder)
    with running(config):
        assert [file for file in left if file.is_symlink() or file.exists()] == []
    assert [other for other in (*others, folder) if not other.exists()] == []


def test_what_another_process_is_writing_stays(tmp_path: Path, small_bundle_folder: Path) -> None:
    config = _device(tmp_path, small_bundle_folder)
    config.agent.state.mkdir(mode=0o700, parents=True)
    with atomic(config.agent.state / "cloud.token") as file:
        with opened(config, None):
            pass
        file.write(b"token")
    assert (config.agent.state / "cloud.token").read_bytes() == b"token"


def test_who_changes_an_adapter_alone_removes_what_the_one_before_left(tmp_path: Path) -> None:
    folder = AdapterFolder(tmp_path / ADAPTERS, "a1")
    with folder.alone():
        left = left_of(folder.begun("0" * 64).with_name(".partial-1.safetensors"))
        left.touch()
        age(left)
    with folder.alone():
        assert not left.exists()
