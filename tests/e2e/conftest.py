"""A real agent and a real cloud as processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.live.testbed import Agent, Cloud


def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `folder` an owner's empty home: nothing of the real one is read or written."""
    monkeypatch.setenv("HOME", str(folder / "home"))
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(folder / "home" / name.lower()))


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An owner's empty home."""
    at_home(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def cloud(owner: Path, bundle_folder: Path) -> Iterator[Cloud]:
    """A running cloud with an empty state."""
    running = Cloud.at(owner, bundle_folder)
    running.start()
    yield running
    running.kill()


@pytest.fixture
def agent(owner: Path, cloud: Cloud) -> Iterator[Agent]:
    """A running agent, enrolled with the cloud, its bundle pulled."""
    running = Agent.at(owner, cloud=cloud.address, tenant="t", token=cloud.enroll("t"))
    running.run("pull", cloud.address)
    running.start()
    yield running
    running.kill()
