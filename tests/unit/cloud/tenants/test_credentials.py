"""One token a device: each with its scope and its end, and each shut out alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants import credentials as module
from sottovoce.cloud.tenants.credentials import Codes, Credentials, Scope
from sottovoce.core.errors import (
    InvalidInput,
    NotFound,
    PermissionDenied,
    SottovoceError,
    Unauthenticated,
)
from tests.support.caller import credentials
from tests.support.clock import Clock
from tests.support.stores import Store

DAY = 86_400.0


@pytest.fixture
def database(tmp_path: Path, store: Store, clock: Clock) -> Iterator[Database]:
    """With two tenants."""
    database = store.open(tmp_path, clock)
    for name in ("acme", "other"):
        Tenants(database).enroll(name)
    yield database
    database.close()


def enters(database: Database, token: str, *scopes: Scope, tenant: str = "acme") -> bool:
    """Whether it opens the door."""
    try:
        Tenants(database).admit(credentials(tenant, token), *(scopes or Scope))
    except SottovoceError:
        return False
    return True


def said(database: Database, token: str, scope: Scope = Scope.ALL) -> SottovoceError:
    """Why it does not."""
    with pytest.raises(SottovoceError) as caught:
        Tenants(database).admit(credentials("acme", token), scope)
    return caught.value


def test_each_device_is_let_in_by_its_own_token_and_shut_out_alone(database: Database) -> None:
    tokens = Credentials(database)
    phone, pi = tokens.new("acme", "phone"), tokens.new("acme", "pi")
    assert enters(database, phone)
    assert enters(database, pi)
    assert not enters(database, pi, tenant="other")
    assert tokens.revoke("acme", "phone") == 1
    error = said(database, phone)
    assert type(error) is Unauthenticated
    assert "revoked" in error.problem
    assert "tokens new" in error.fix
    assert enters(database, pi)
    with pytest.raises(NotFound, match="tokens list acme"):
        tokens.revoke("acme", "phone")
    with pytest.raises(NotFound):
        tokens.revoke("other", "pi")
    assert tokens.revoke("acme") == 2  # the first one, too
    assert not enters(database, pi)
    assert not tokens.revoke("acme")


def test_a_token_opens_only_what_it_is_for(database: Database) -> None:
    for scope in Scope:
        token = Credentials(database).new("acme", f"for-{scope}", scope=scope)
        for asked in (Scope.TRAIN, Scope.PREDICT):
            assert enters(database, token, asked) is (scope in (asked, Scope.ALL))
        assert enters(database, token, Scope.TRAIN, Scope.PREDICT)
        assert Tenants(database).authenticate(credentials("acme", token)) == "acme"
        assert enters(database, token, Scope.ALL) is (scope is Scope.ALL)
    error = said(database, token, Scope.TRAIN)
    assert type(error) is PermissionDenied
    assert "--scope train" in error.fix


def test_a_token_ends_when_it_was_said_to(database: Database, clock: Clock) -> None:
    tokens = Credentials(database)
    brief, long = tokens.new("acme", "brief", seconds=DAY), tokens.new("acme", "long")
    clock.later += DAY - 1
    assert enters(database, brief)
    clock.later += 1
    error = said(database, brief)
    assert "ended at 2023-11-15" in error.problem
    assert enters(database, long)
    found, now = tokens.all("acme")
    assert {c.name: c.valid_at(now) for c in found} == {
        "first": True, "brief": False, "long": True,
    }  # fmt: skip
    with pytest.raises(NotFound):
        tokens.revoke("acme", "brief")
    assert tokens.new("acme", "brief")  # the name is free again


def test_two_tokens_of_a_device_are_valid_while_it_changes_them(
    database: Database, clock: Clock
) -> None:
    tokens = Credentials(database)
    old = tokens.new("acme", "pi", seconds=DAY)
    with pytest.raises(InvalidInput, match="--replace"):
        tokens.new("acme", "pi")
    for name in ("p1", "tv"):  # mistyped
        with pytest.raises(NotFound, match="--replace out"):
            tokens.new("acme", name, replace=True)
    with pytest.raises(InvalidInput, match="no tenant"):
        tokens.new("acne", "pi", replace=True)
    new = tokens.new("acme", "pi", replace=True, grace=60)
    assert enters(database, old)
    assert enters(database, new)
    clock.later += 60
    assert not enters(database, old)
    assert enters(database, new)
    # What would have ended sooner is not prolonged.
    soon = tokens.new("acme", "tv", seconds=10)
    tokens.new("acme", "tv", replace=True, grace=DAY)
    clock.later += 10
    assert not enters(database, soon)


def test_what_replaces_a_token_opens_no_more_and_no_longer(
    database: Database, clock: Clock
) -> None:
    tokens = Credentials(database)

    def newest() -> tuple[Scope, float | None, str]:
        credential = tokens.all("acme")[0][-1]
        life = None if credential.ends is None else credential.ends - credential.created
        return credential.scope, life, audit_log.recorded(database, most=1)[0].detail

    tokens.new("acme", "pi", scope=Scope.PREDICT, seconds=DAY)
    clock.later += 10
    tokens.new("acme", "pi", replace=True, grace=60)
    assert newest() == (Scope.PREDICT, DAY, "pi: predict, until 2023-11-15T22:13:30+00:00")
    tokens.revoke("acme", "pi")
    tokens.new("acme", "pi", replace=True)  # also of one that is over
    assert newest()[:2] == (Scope.PREDICT, DAY)
    tokens.new("acme", "pi", replace=True, scope=Scope.ALL, seconds=5.0)
    assert newest()[:2] == (Scope.ALL, 5.0)
    with database.write() as transaction:  # as it is once a hundred more are over
        transaction.change("DELETE FROM credentials WHERE name = 'first'")
    Tenants(database).renew("acme")
    assert newest() == (Scope.ALL, None, "first: all, for ever")


def test_one_of_two_is_revoked_by_its_number(database: Database) -> None:
    tokens = Credentials(database)
    old = tokens.new("acme", "pi")
    new = tokens.new("acme", "pi", replace=True, grace=DAY)
    first, second = (c.number for c in tokens.all("acme")[0] if c.name == "pi")
    assert tokens.revoke("acme", str(first)) == 1
    assert (enters(database, old), enters(database, new)) == (False, True)
    with pytest.raises(NotFound):  # another's number
        tokens.revoke("other", str(second))
    with pytest.raises(NotFound):
        tokens.revoke("acme", "9" * 40)
    assert enters(database, new)


@pytest.mark.parametrize("name", ["", "12", "Pi", "../pi", "x" * 65])
def test_names_are_fit_for_a_line(database: Database, name: str) -> None:
    with pytest.raises(InvalidInput):
        Credentials(database).new("acme", name)


def test_nobody_is_let_in_for_a_tenant_that_is_not_there(database: Database) -> None:
    tokens = Credentials(database)
    for call in (lambda: tokens.new("none", "pi"), lambda: tokens.revoke("none")):
        with pytest.raises(InvalidInput, match="no tenant"):
            call()
    with pytest.raises(InvalidInput, match="no tenant"):
        tokens.all("none")
    assert {a.tenant for a in audit_log.recorded(database, most=100)} == {"acme", "other"}


def test_a_disabled_tenant_comes_back_as_it_was(database: Database) -> None:
    token = Credentials(database).new("acme", "pi")
    tenants = Tenants(database)
    tenants.disable("acme")
    error = said(database, token)
    assert type(error) is PermissionDenied
    assert "disabled" in error.problem
    with pytest.raises(Unauthenticated, match="unknown tenant or wrong"):  # who knows no token
        tenants.authenticate(credentials("acme", "guess"))
    assert [(t.name, t.disabled, t.tokens, t.jobs) for t in tenants.all()] == [
        ("acme", True, 2, 0),
        ("other", False, 1, 0),
    ]
    tenants.disable("acme", disabled=False)
    assert enters(database, token)
    with pytest.raises(InvalidInput, match="no tenant"):
        tenants.disable("none")


def test_tokens_are_bounded_also_when_many_are_made_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 5)
    monkeypatch.setattr(module, "_REMEMBERED", 3)
    tokens = Credentials(database)

    def new(n: int) -> bool:
        try:
            return bool(tokens.new("acme", f"dev-{n}"))
        except InvalidInput:
            return False

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(new, range(12))) == 4  # and the first
    for credential in tokens.all("acme")[0]:
        tokens.revoke("acme", credential.name)
    found, now = tokens.all("acme")
    assert [c.valid_at(now) for c in found] == [False] * 3
    assert [c.number for c in found] == sorted(c.number for c in found)[-3:]
    assert new(1)


def test_of_two_who_make_the_same_name_one_does(database: Database) -> None:
    def new(_: int) -> bool:
        try:
            return bool(Credentials(database).new("acme", "pi"))
        except InvalidInput:
            return False

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(new, range(6))) == 1


OURS, THEIRS = "CN:hall", "CN:shed"


@pytest.fixture
def devices_database(tmp_path: Path, store: Store) -> Iterator[Database]:
    """With a tenant."""
    devices_database = store.open(tmp_path)
    Tenants(devices_database).enroll("acme")
    yield devices_database
    devices_database.close()


def _bound(devices_database: Database, token: str, name: str) -> bool:
    try:
        Tenants(devices_database).authenticate(credentials("acme", token), name)
    except Unauthenticated:
        return False
    return True


def test_the_first_name_has_the_token_and_no_other_from_then_on(devices_database: Database) -> None:
    token = Credentials(devices_database).new("acme", "hall")
    assert _bound(devices_database, token, "")
    assert _bound(devices_database, token, OURS)
    for other in (THEIRS, ""):
        with pytest.raises(Unauthenticated) as caught:
            Tenants(devices_database).authenticate(credentials("acme", token), other)
        assert caught.value.subject == "cloud.certificate"
        assert "tokens code" in caught.value.fix
    assert _bound(devices_database, token, OURS)
    (said,) = (a for a in audit_log.recorded(devices_database, most=10) if a.what == "device bound")
    assert (said.who, said.tenant, said.detail) == (audit_log.A_DEVICE, "acme", f"hall: {OURS}")


def test_of_two_names_that_come_at_once_one_has_it(devices_database: Database) -> None:
    token = Credentials(devices_database).new("acme", "hall")
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: _bound(devices_database, token, f"CN:{n}"), range(8)))
    assert done.count(True) == 1


def test_a_replacement_belongs_to_the_same_name(devices_database: Database) -> None:
    tokens = Credentials(devices_database)
    old = tokens.new("acme", "hall")
    assert _bound(devices_database, old, OURS)
    new = tokens.new("acme", "hall", replace=True, grace=60.0)
    assert not _bound(devices_database, new, THEIRS)
    assert _bound(devices_database, new, OURS)
    assert _bound(devices_database, old, OURS)


@pytest.mark.parametrize("how", ["revoked", "code"])
def test_a_device_that_takes_anothers_place_brings_its_own_certificate(
    devices_database: Database, how: str
) -> None:
    tokens = Credentials(devices_database)
    assert _bound(devices_database, tokens.new("acme", "hall"), OURS)
    if how == "revoked":
        tokens.revoke("acme", "hall")
        new = tokens.new("acme", "hall", replace=True)
    else:
        new, code = "of its own making", Codes(devices_database).new("acme", "hall", replace=True)
        Codes(devices_database).redeem(code, hashlib.sha256(new.encode()).digest())
    assert _bound(devices_database, new, THEIRS)
    assert not _bound(devices_database, new, OURS)


def test_a_token_that_opens_nothing_is_bound_to_nothing(devices_database: Database) -> None:
    token = Credentials(devices_database).new("acme", "hall")
    Credentials(devices_database).revoke("acme", "hall")
    with pytest.raises(SottovoceError, match="revoked"):
        Tenants(devices_database).authenticate(credentials("acme", token), OURS)
