"""Both clouds, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.caller import Caller
from tests.support.peers import KINDS, Peer, peer


@pytest.fixture(scope="module", params=KINDS)
def cloud(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    """A cloud: the fake one of the device's tests, or the real one."""
    with peer(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def acme(cloud: Peer, request: pytest.FixtureRequest) -> Iterator[Caller]:
    """A tenant nobody else is."""
    with cloud.caller(f"acme-{abs(hash(request.node.nodeid))}") as caller:
        yield caller
