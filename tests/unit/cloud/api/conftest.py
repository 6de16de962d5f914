"""What tests of a server share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.cloud.config import Settings
from tests.support.backbones import tiny_bert
from tests.support.cloud import Cloud, cloud
from tests.support.tiny_bundle import tiny_bundle


@pytest.fixture
def end() -> Iterator[threading.Event]:
    """Set by the test, or after it: calls that wait for it hold threads."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A backbone and its bundle."""
    root = tmp_path_factory.mktemp("cloud")
    bert = tiny_bert(root / "bert")
    return bert, tiny_bundle(root / "bundle", bert)


@pytest.fixture(scope="module")
def running(
    folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    """A server without a worker."""
    bert, bundle = folders
    root = tmp_path_factory.mktemp("cloud")
    settings = Settings(root / "state", (bundle,), f"unix:{root}/s.sock", str(bert))
    with cloud(settings) as started:
        yield started
