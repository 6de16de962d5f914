"""The log names the actor of each act, and is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants, quotas
from sottovoce.cloud.tenants.credentials import Credentials
from sottovoce.core.errors import InvalidInput
from tests.support.stores import Store


@pytest.fixture
def database(tmp_path: Path, store: Store) -> Iterator[Database]:
    """An empty one."""
    database = store.open(tmp_path, lambda: 1_000.0)
    yield database
    database.close()


def test_every_act_is_noted_with_who_and_when_and_no_token(
    database: Database, tmp_path: Path, store: Store
) -> None:
    tenants, tokens = Tenants(database), Credentials(database)
    made = [tenants.enroll("acme"), tokens.new("acme", "pi")]
    made.append(tokens.new("acme", "pi", replace=True))
    tokens.revoke("acme", "pi")
    tokens.revoke("acme")
    made.append(tenants.renew("acme"))
    tenants.disable("acme")
    tenants.disable("acme", disabled=False)
    quotas.change(database, "acme", "examples", 7)
    quotas.change(database, "acme", "examples", None)
    tenants.enroll("other")
    found = audit_log.recorded(database, most=100, tenant="acme")
    assert [(a.what, a.detail) for a in reversed(found)] == [
        ("tenant enrolled", ""),
        ("token made", "pi: all, for ever"),
        ("token replaced", "pi: all, for ever"),
        ("token revoked", "pi"),
        ("token revoked", "all"),
        ("token replaced", "first: all, for ever"),
        ("tenant disabled", ""),
        ("tenant enabled", ""),
        ("limit changed", "examples=7"),
        ("limit changed", "examples="),
    ]
    assert {(a.who, a.done, a.tenant) for a in found} == {(audit_log.operator(), 1_000.0, "acme")}
    assert len(audit_log.recorded(database, most=3)) == 3
    assert audit_log.recorded(database, most=1)[0].tenant == "other"
    held = store.on_disk(tmp_path)
    assert not any(token.encode() in held for token in made)


def test_what_failed_is_not_noted(database: Database) -> None:
    Tenants(database).enroll("acme")
    for call in (
        lambda: Tenants(database).enroll("acme"),
        lambda: Credentials(database).new("acme", "first"),
        lambda: Tenants(database).disable("none"),
        lambda: quotas.change(database, "none", "examples", 1),
    ):
        with pytest.raises(InvalidInput):
            call()
    assert [a.what for a in audit_log.recorded(database, most=9)] == ["tenant enrolled"]


def test_the_newest_are_kept(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "KEPT", 3)
    for n in range(7):
        audit_log.note(database, "act", "acme", str(n))
    assert [a.detail for a in audit_log.recorded(database, most=9)] == ["6", "5", "4"]


def test_who_called_sudo_is_named_and_cannot_write_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    plain = audit_log.operator()
    assert "@" in plain
    monkeypatch.setenv("SUDO_USER", "ann\n\x1b[2J" + "x" * 200)
    named = audit_log.operator()
    assert named.startswith(f"{plain}, by sudo of ann")
    assert named.isprintable()
    assert len(named) < len(plain) + 90
