"""A token belongs to the first certificate's name, and so does the token that replaces it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants.credentials import Codes, Credentials
from sottovoce.core.errors import SottovoceError, Unauthenticated
from tests.support.caller import credentials
from tests.support.stores import Store

OURS, THEIRS = "CN:hall", "CN:shed"


@pytest.fixture
def database(tmp_path: Path, store: Store) -> Iterator[Database]:
    """With a tenant."""
    database = store.open(tmp_path)
    Tenants(database).enroll("acme")
    yield database
    database.close()


def _bound(database: Database, token: str, name: str) -> bool:
    try:
        Tenants(database).authenticate(credentials("acme", token), name)
    except Unauthenticated:
        return False
    return True


def test_the_first_name_has_the_token_and_no_other_from_then_on(database: Database) -> None:
    token = Credentials(database).new("acme", "hall")
    assert _bound(database, token, "")
    assert _bound(database, token, OURS)
    for other in (THEIRS, ""):
        with pytest.raises(Unauthenticated) as caught:
            Tenants(database).authenticate(credentials("acme", token), other)
        assert caught.value.subject == "cloud.certificate"
        assert "tokens code" in caught.value.fix
    assert _bound(database, token, OURS)
    (said,) = (a for a in audit_log.recorded(database, most=10) if a.what == "device bound")
    assert (said.who, said.tenant, said.detail) == (audit_log.A_DEVICE, "acme", f"hall: {OURS}")


def test_of_two_names_that_come_at_once_one_has_it(database: Database) -> None:
    token = Credentials(database).new("acme", "hall")
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: _bound(database, token, f"CN:{n}"), range(8)))
    assert done.count(True) == 1


def test_a_replacement_belongs_to_the_same_name(database: Database) -> None:
    tokens = Credentials(database)
    old = tokens.new("acme", "hall")
    assert _bound(database, old, OURS)
    new = tokens.new("acme", "hall", replace=True, grace=60.0)
    assert not _bound(database, new, THEIRS)
    assert _bound(database, new, OURS)
    assert _bound(database, old, OURS)


@pytest.mark.parametrize("how", ["revoked", "code"])
def test_a_device_that_takes_anothers_place_brings_its_own_certificate(
    database: Database, how: str
) -> None:
    tokens = Credentials(database)
    assert _bound(database, tokens.new("acme", "hall"), OURS)
    if how == "revoked":
        tokens.revoke("acme", "hall")
        new = tokens.new("acme", "hall", replace=True)
    else:
        new, code = "of its own making", Codes(database).new("acme", "hall", replace=True)
        Codes(database).redeem(code, hashlib.sha256(new.encode()).digest())
    assert _bound(database, new, THEIRS)
    assert not _bound(database, new, OURS)


def test_a_token_that_opens_nothing_is_bound_to_nothing(database: Database) -> None:
    token = Credentials(database).new("acme", "hall")
    Credentials(database).revoke("acme", "hall")
    with pytest.raises(SottovoceError, match="revoked"):
        Tenants(database).authenticate(credentials("acme", token), OURS)
