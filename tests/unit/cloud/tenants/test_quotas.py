"""One tenant's limits may differ from everybody's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants, quotas
from sottovoce.core.errors import InvalidInput
from tests.support.stores import Store

COMMON = ServerLimits(examples=100, unfinished_jobs=7)


@pytest.fixture
def database(tmp_path: Path, store: Store) -> Iterator[Database]:
    """Two tenants."""
    database = store.open(tmp_path)
    for name in ("acme", "other"):
        Tenants(database).enroll(name)
    yield database
    database.close()


def test_what_was_changed_differs_and_nothing_else(database: Database) -> None:
    quotas.change(database, "acme", "examples", 5)
    quotas.change(database, "acme", "examples", 9)
    assert quotas.of(database, "acme", COMMON) == ServerLimits(examples=9, unfinished_jobs=7)
    assert quotas.of(database, "other", COMMON) == COMMON
    assert quotas.own(database, "acme") == {"examples": 9}
    quotas.change(database, "acme", "examples", None)
    assert quotas.of(database, "acme", COMMON) == COMMON


def test_the_limits_in_force_are_the_tenants_those_noted_or_the_default(
    database: Database,
) -> None:
    quotas.note(database, ServerLimits(examples=1), quotas.OF_SERVERS)
    quotas.note(database, COMMON, quotas.OF_SERVERS)
    quotas.change(database, "acme", "examples", 5)
    found = quotas.in_force(database, "acme")
    assert tuple(found) == quotas.CHANGEABLE
    assert found["examples"] == quotas.InForce(5, "tenant")
    assert found["unfinished_jobs"] == quotas.InForce(7, "all")
    assert found["training_seconds"] == quotas.InForce(ServerLimits().training_seconds, "default")
    assert quotas.in_force(database, "other")["examples"] == quotas.InForce(100, "all")
    quotas.note(database, ServerLimits(training_seconds=9), quotas.OF_TRAINERS)
    assert quotas.in_force(database, "acme")["training_seconds"] == quotas.InForce(9, "all")
    assert quotas.in_force(database, "other")["examples"].value == 100


@pytest.mark.parametrize("name", quotas.CHANGEABLE)
def test_every_changeable_limit_is_a_limit(database: Database, name: str) -> None:
    quotas.change(database, "acme", name, 3)
    assert getattr(quotas.of(database, "acme", COMMON), name) == 3


@pytest.mark.parametrize(
    ("tenant", "name", "value"),
    [("nobody", "examples", 1), ("acme", "message", 1), ("acme", "examples", 0)],
)
def test_what_cannot_be_changed_is_said(
    database: Database, tenant: str, name: str, value: int
) -> None:
    with pytest.raises(InvalidInput) as caught:
        quotas.change(database, tenant, name, value)
    assert caught.value.fix
    assert quotas.own(database, "acme") == {}
