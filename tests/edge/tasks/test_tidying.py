"""What was half written in the agent's folders is gone once it has started again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from sottovoce.core.system.files import atomic
from sottovoce.edge.config import Config
from sottovoce.edge.state.adapters import ADAPTERS, AdapterFolder
from tests.support.agent import configured, opened, running

_LEFT = "00c0ffee"


def _left(config: Config) -> list[Path]:
    """Half a file in every place that the agent writes to."""
    state, token = config.agent.state, config.cloud.token_file
    assert token is not None
    assert config.source is not None
    adapter = state / ADAPTERS / "a1"
    adapter.mkdir(parents=True)
    state.chmod(0o700)
    files = [
        state / f".owner.token.{_LEFT}",
        adapter / f".versions.json.{_LEFT}",
        adapter / f"..partial-{'0' * 64}.safetensors.{_LEFT}",
        config.bundle.path / f".known_clouds.{_LEFT}",
        token.with_name(f".{token.name}.{_LEFT}"),
        token.with_name(f".{token.name}.0123456789abcdef.new.{_LEFT}"),
        config.source.with_name(f".{config.source.name}.{_LEFT}"),
    ]
    for file in files:
        file.write_text("swordfish")
    link = config.bundle.path / f".current.{_LEFT}"
    link.symlink_to("nowhere")
    return [*files, link]


def _device(folder: Path, bundle: Path) -> Config:
    config = configured(folder, bundle=bundle)
    (folder / "agent.toml").touch()
    return dataclasses.replace(config, source=folder / "agent.toml")


def test_a_daemon_tidies_as_it_starts(tmp_path: Path, small_bundle_folder: Path) -> None:
    config = _device(tmp_path, small_bundle_folder)
    left = _left(config)
    others = tmp_path / f".notes.{_LEFT}"  # beside the token, and nothing that the agent writes
    others.touch()
    with running(config):
        assert [file for file in left if file.is_symlink() or file.exists()] == []
    assert others.exists()


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
        left = folder.begun("0" * 64).with_name(f"..partial-1.safetensors.{_LEFT}")
        left.touch()
    with folder.alone():
        assert not left.exists()
