"""Commands that root types for the agent of another user."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.edge.cli import common
from tests.support.agent import running
from tests.support.stub_cloud import StubCloud

from .conftest import Device

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root's commands: run it as root")
USER = 54321
TEXT = "the pond"
WRITING = (["pull"], ["rotate-key"], ["privatize", TEXT], ["fetch", "--versions", "mail"])


def _give(folder: Path, user: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


def test_root_leaves_nothing_among_another_users_files(linked: Device) -> None:
    assert linked.sotto("privatize", TEXT).stdout
    state = linked.config.agent.state
    _give(state, USER)
    before = sorted(state.rglob("*"))
    for command in WRITING:
        said = linked.sotto(*command, code=78).stderr
        assert f"fix: type it as that user: sudo -u #{USER} sotto" in said, command
    assert sorted(state.rglob("*")) == before
    _give(state, 0)
    for command in WRITING[:-1]:
        linked.sotto(*command)


def test_who_speaks_to_a_running_agent_may_be_root(linked: Device) -> None:
    with running(linked.config):
        _give(linked.config.agent.state, USER)
        assert linked.sotto("privatize", TEXT).stdout


def test_before_the_first_release_the_machines_settings_say_whose_it_will_be(
    new_device: Callable[..., Device],
    cloud: StubCloud,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device, home, file = new_device(), tmp_path / "theirs", tmp_path / "agent.toml"
    home.mkdir()
    os.chown(home, USER, USER)
    file.write_text(f'[agent]\nstate = "{home}/state"\n[bundle]\npath = "{home}/bundle"\n')
    pull = ("--config", str(file), "pull", cloud.address)
    with monkeypatch.context() as machine:
        machine.setattr(common, "MACHINE", file)
        device.sotto(*pull, code=78)
    assert not list(home.iterdir())
    device.sotto(*pull)  # a container's volume: whose it is outside says nothing
