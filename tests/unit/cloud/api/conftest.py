"""What tests of a server share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.backbones import tiny_bert
from tests.support.tiny_bundle import tiny_bundle


@pytest.fixture
def end() -> Iterator[threading.Event]:
    """Set by the test, or after it: calls that wait for it hold threads."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A backbone and its bundle."""
    root = tmp_path_factory.mktemp("cloud")
    bert = tiny_bert(root / "bert")
    return bert, tiny_bundle(root / "bundle", bert)
