"""The provider's page, opened and entered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sottovoce.cloud.page import Endpoint, changes, endpoints, page_server
from sottovoce.cloud.store.database import Database
from sottovoce.core.http.page import PageServer
from tests.support.openai_endpoint import Door, entered


@contextmanager
def served(
    told: Mapping[str, Endpoint], changed: Mapping[str, Endpoint] | None = None
) -> Iterator[PageServer]:
    """A server of the page that answers these."""
    with page_server("127.0.0.1:0", told, changed) as server:
        yield server


@contextmanager
def page_of(
    database: Database, health: Sequence[str] = (), metrics: Sequence[str] = ()
) -> Iterator[Door]:
    """The page of a cloud, entered."""
    with served(endpoints(database, health, metrics, None), changes(database)) as server:
        yield entered(server.link())
