"""A token belongs to the first key that comes with it, and so does what replaces it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants.codes import Codes
from sottovoce.cloud.tenants.credentials import Credentials
from sottovoce.cloud.tenants.tenants import Tenants
from sottovoce.core.errors import PermissionDenied, SottovoceError, Unauthenticated
from tests.support.caller import credentials
from tests.support.stores import Store

OURS, THEIRS = "a" * 64, "b" * 64


@pytest.fixture
def database(tmp_path: Path, store: Store) -> Iterator[Database]:
    """With a tenant."""
    database = store.open(tmp_path)
    Tenants(database).enroll("acme")
    yield database
    database.close()


def _bound(database: Database, token: str, device: str) -> bool:
    try:
        Tenants(database).bind(credentials("acme", token), device)
    except PermissionDenied:
        return False
    Tenants(database).authenticate(credentials("acme", token), device)
    return True


def test_the_first_key_has_the_token_and_no_other_from_then_on(database: Database) -> None:
    token = Credentials(database).new("acme", "hall")
    with pytest.raises(Unauthenticated) as caught:
        Tenants(database).authenticate(credentials("acme", token), OURS)
    assert type(caught.value) is Unauthenticated
    assert _bound(database, token, OURS)
    with pytest.raises(PermissionDenied) as refused:
        Tenants(database).bind(credentials("acme", token), THEIRS)
    assert refused.value.subject == "token"
    assert "tokens code" in refused.value.fix
    assert _bound(database, token, OURS)
    with pytest.raises(Unauthenticated):
        Tenants(database).authenticate(credentials("acme", token), THEIRS)
    (said,) = (a for a in audit_log.recorded(database, most=10) if a.what == "device bound")
    assert (said.who, said.tenant, said.detail) == (
        audit_log.A_DEVICE,
        "acme",
        f"hall: key {OURS[:16]}",
    )


def test_where_certificates_are_required_a_token_needs_one_until_that_is_taken_back(
    database: Database,
) -> None:
    tenants = Tenants(database)
    token = credentials("acme", Credentials(database).new("acme", "hall"))
    assert not tenants.certificates_required()
    for _ in range(2):
        tenants.require_certificates(required=True)  # as each server says that starts
    assert tenants.certificates_required()
    with pytest.raises(Unauthenticated) as caught:
        tenants.authenticate(token, "")
    assert caught.value.subject == "devices_port"
    assert tenants.authenticate(token) == "acme"  # who asks for a certificate has none yet
    tenants.bind(token, OURS)
    assert tenants.authenticate(token, OURS) == "acme"
    tenants.require_certificates(required=False)
    assert tenants.authenticate(token, "") == "acme"
    said = [act.what for act in audit_log.recorded(database, most=10) if "certificates" in act.what]
    assert said == ["certificates optional", "certificates required"]


def test_of_two_keys_that_come_at_once_one_has_it(database: Database) -> None:
    token = Credentials(database).new("acme", "hall")
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: _bound(database, token, f"{n:064}"), range(8)))
    assert done.count(True) == 1


def test_what_replaces_a_token_belongs_to_the_same_key(database: Database) -> None:
    tokens = Credentials(database)
    old = tokens.new("acme", "hall")
    assert _bound(database, old, OURS)
    new = tokens.new("acme", "hall", replace=True, grace=60.0)
    assert not _bound(database, new, THEIRS)
    assert _bound(database, new, OURS)
    assert _bound(database, old, OURS)


@pytest.mark.parametrize("how", ["revoked", "code"])
def test_a_device_that_takes_anothers_place_brings_its_own_key(
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
        Tenants(database).bind(credentials("acme", token), OURS)
