"""A cloud and its tenants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.caller import Caller
from tests.support.peers import Peer, peer


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with peer(tmp_path_factory.mktemp("cloud")) as running:
        yield running


@pytest.fixture
def acme(cloud: Peer, request: pytest.FixtureRequest) -> Iterator[Caller]:
    """Yield a tenant that no other test uses."""
    with cloud.caller(f"acme-{abs(hash(request.node.nodeid))}") as caller:
        yield caller
