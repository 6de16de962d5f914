"""Tokens open one tenant's door, and are not kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.cloud.tenants import Tenants
from sottovoce.core.errors import InvalidInput, Unauthenticated
from tests.support.stores import Store


@pytest.fixture
def tenants(tmp_path: Path, store: Store) -> Iterator[Tenants]:
    """The tenants of an empty database."""
    database = store.open(tmp_path)
    yield Tenants(database)
    database.close()


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("sottovoce-tenant", "acme"),),
        (("authorization", "Bearer x"),),
        (("sottovoce-tenant", "acme"), ("authorization", "Basic x")),
        (("sottovoce-tenant", b"acme"), ("authorization", "Bearer x")),
    ],
)
def test_calls_without_both_entries_are_told_what_to_send(
    tenants: Tenants, metadata: tuple[tuple[str, str | bytes], ...]
) -> None:
    with pytest.raises(Unauthenticated, match="token_file"):
        tenants.authenticate(metadata)


def test_the_token_itself_is_nowhere_on_disk(
    tenants: Tenants, store: Store, tmp_path: Path
) -> None:
    token = tenants.enroll("acme")
    assert len(token) >= 43  # 32 bytes
    held = store.on_disk(tmp_path)
    assert b"acme" in held
    assert token.encode() not in held


def test_names_are_unique_and_fit_for_folders(tenants: Tenants) -> None:
    tenants.enroll("acme")
    with pytest.raises(InvalidInput, match="exists"):
        tenants.enroll("acme")
    with pytest.raises(InvalidInput, match="not valid"):
        tenants.enroll("../acme")
    with pytest.raises(InvalidInput, match="no tenant"):
        tenants.renew("nobody")


def test_they_come_by_pages_and_by_how_they_begin(tenants: Tenants) -> None:
    for name in ("a1", "a2", "b1", "b2", "b3"):
        tenants.enroll(name)
    assert [each.name for each in tenants.page(most=2)] == ["a1", "a2"]
    assert [each.name for each in tenants.page(after="a2", most=2)] == ["b1", "b2"]
    assert [each.name for each in tenants.page(begins="b", after="b1", most=9)] == ["b2", "b3"]
    assert tenants.page(begins="_1", most=9) == []
    assert tenants.page(most=9) == tenants.all()
    assert {(each.tokens, each.next_end) for each in tenants.all()} == {(1, None)}
