"""One tenant's limits may differ from everybody's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.cloud.config import Limits
from sottovoce.cloud.state import quotas
from sottovoce.cloud.state.database import Store
from sottovoce.cloud.state.tenants import Tenants
from sottovoce.core.errors import InvalidInput

COMMON = Limits(examples=100, unfinished_jobs=7)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Two tenants."""
    store = Store(tmp_path)
    for name in ("acme", "other"):
        Tenants(store).enroll(name)
    yield store
    store.close()


def test_what_was_changed_differs_and_nothing_else(store: Store) -> None:
    quotas.change(store, "acme", "examples", 5)
    quotas.change(store, "acme", "examples", 9)
    assert quotas.of(store, "acme", COMMON) == Limits(examples=9, unfinished_jobs=7)
    assert quotas.of(store, "other", COMMON) == COMMON
    assert quotas.own(store, "acme") == {"examples": 9}
    quotas.change(store, "acme", "examples", None)
    assert quotas.of(store, "acme", COMMON) == COMMON


@pytest.mark.parametrize("name", quotas.CHANGEABLE)
def test_every_changeable_limit_is_a_limit(store: Store, name: str) -> None:
    quotas.change(store, "acme", name, 3)
    assert getattr(quotas.of(store, "acme", COMMON), name) == 3


@pytest.mark.parametrize(
    ("tenant", "name", "value"),
    [("nobody", "examples", 1), ("acme", "message", 1), ("acme", "examples", 0)],
)
def test_what_cannot_be_changed_is_said(store: Store, tenant: str, name: str, value: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        quotas.change(store, tenant, name, value)
    assert caught.value.fix
    assert quotas.own(store, "acme") == {}
