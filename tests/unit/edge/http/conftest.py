"""OpenAI endpoints for the tests of this folder, with the servers behind them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.core.text.tagger import Tagger
from tests.support.echo import EchoingCloud, echo, echoing_cloud
from tests.support.openai_endpoint import Door, opened_endpoint
from tests.support.openai_upstream import before_a_server
from tests.support.upstream_server import Server
from tests.support.upstream_server import echo as echoed


@pytest.fixture(scope="module")
def before_our_cloud(
    tmp_path_factory: pytest.TempPathFactory, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[tuple[Door, EchoingCloud]]:
    """Of a module's tests."""
    folder = tmp_path_factory.mktemp("device")
    with (
        echoing_cloud() as cloud,
        opened_endpoint(
            folder, small_bundle_folder, lexicon_tagger, SOTTO_CLOUD_ADDRESS=cloud.address
        ) as door,
    ):
        yield door, cloud


@pytest.fixture
def at_cloud(before_our_cloud: tuple[Door, EchoingCloud]) -> tuple[Door, EchoingCloud]:
    """An OpenAI endpoint before our cloud, which echoes."""
    door, cloud = before_our_cloud
    cloud.answer = echo
    cloud.cancelled.clear()
    return door, cloud


@pytest.fixture(scope="module")
def before_anothers(
    tmp_path_factory: pytest.TempPathFactory, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[tuple[Door, Server]]:
    """Of a module's tests."""
    folder = tmp_path_factory.mktemp("device")
    with before_a_server(folder, small_bundle_folder, lexicon_tagger) as found:
        yield found


@pytest.fixture
def at_server(before_anothers: tuple[Door, Server]) -> tuple[Door, Server]:
    """Return an OpenAI endpoint before a foreign server, which echoes."""
    door, server = before_anothers
    server.answer = echoed
    server.asked.clear()
    return door, server
