"""A code is short, so it works once, for minutes, and not after a few wrong guesses."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants import credentials as module
from sottovoce.cloud.tenants.credentials import (
    CODE_SECONDS,
    GUESSES,
    Codes,
    Credentials,
    Scope,
    hashed,
)
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


@pytest.fixture
def database(tmp_path: Path, store: Store, clock: Clock) -> Iterator[Database]:
    """With one tenant."""
    database = store.open(tmp_path, clock)
    Tenants(database).enroll("acme")
    yield database
    database.close()


def enters(database: Database, token: str) -> bool:
    """Whether the tenant's door opens to it."""
    try:
        return Tenants(database).admit(credentials("acme", token), Scope.PREDICT) == "acme"
    except SottovoceError:
        return False


def wrong(code: str) -> str:
    """The same with another secret."""
    return code[:-1] + ("A" if code[-1] != "A" else "B")


def test_a_code_becomes_a_token_of_its_name_scope_and_end(
    database: Database, clock: Clock, store: Store, tmp_path: Path
) -> None:
    codes = Codes(database)
    code = codes.new("acme", "hall", scope=Scope.PREDICT, token_seconds=50.0)
    assert [len(part) for part in code.split("-")] == [4, 4, 4]
    assert not enters(database, "mine")
    clock.later += 5
    done = codes.redeem(code.lower(), hashed("mine"))
    assert (done.tenant, done.name, done.scope, done.ends) == (
        "acme", "hall", Scope.PREDICT, clock.now + 50,
    )  # fmt: skip
    assert enters(database, "mine")
    clock.later += 50
    assert not enters(database, "mine")
    noted = [(a.what, a.detail, a.who) for a in audit_log.recorded(database, most=2)]
    assert noted == [
        ("code redeemed", "hall: predict, until 2023-11-14T22:14:15+00:00", audit_log.A_DEVICE),
        ("code made", "hall: predict", audit_log.operator()),
    ]
    assert code.replace("-", "").encode() not in store.on_disk(tmp_path)
    assert code[5:].replace("-", "").encode() not in store.on_disk(tmp_path)


def test_a_code_in_place_of_a_token_lets_in_to_no_more(database: Database, clock: Clock) -> None:
    Credentials(database).new("acme", "hall", scope=Scope.PREDICT, seconds=50.0)
    codes = Codes(database)
    done = codes.redeem(codes.new("acme", "hall", replace=True), hashed("mine"))
    assert (done.scope, done.ends) == (Scope.PREDICT, clock.now + 50)


def test_a_used_code_opens_nothing_more(database: Database) -> None:
    codes = Codes(database)
    code = codes.new("acme", "hall")
    first = codes.redeem(code, hashed("mine"))
    assert codes.redeem(code, hashed("mine")) == first  # its answer was lost
    with pytest.raises(Unauthenticated, match="used"):
        codes.redeem(code, hashed("thief"))
    assert not enters(database, "thief")
    assert [c.name for c in Credentials(database).all("acme")[0]] == ["first", "hall"]
    Credentials(database).revoke("acme", "hall")
    with pytest.raises(Unauthenticated):
        codes.redeem(code, hashed("mine"))
    assert not enters(database, "mine")


def test_a_code_of_who_is_shut_out_or_gets_another_is_void(database: Database) -> None:
    codes, tokens = Codes(database), Credentials(database)
    hall, shed, yard = (codes.new("acme", name) for name in ("hall", "shed", "yard"))
    newer = codes.new("acme", "hall")
    assert tokens.revoke("acme", "shed") == 0  # a code, and no token yet
    for void in (hall, shed):
        with pytest.raises(Unauthenticated):
            codes.redeem(void, hashed("mine"))
    assert codes.redeem(newer, hashed("mine")).name == "hall"
    assert tokens.revoke("acme") == 2
    for void in (newer, yard):
        with pytest.raises(Unauthenticated):
            codes.redeem(void, hashed("mine"))
    assert not enters(database, "mine")


def test_codes_go_with_the_one_token_that_is_shut_out_by_its_number(database: Database) -> None:
    codes, tokens = Codes(database), Credentials(database)
    tokens.new("acme", "hall")
    tokens.new("acme", "shed")
    hall, shed = (codes.new("acme", name, replace=True) for name in ("hall", "shed"))
    numbers = {c.name: str(c.number) for c in tokens.all("acme")[0]}
    Tenants(database).enroll("other")
    with pytest.raises(NotFound):  # another's number
        tokens.revoke("other", numbers["hall"])
    assert tokens.revoke("acme", numbers["hall"]) == 1
    with pytest.raises(Unauthenticated):
        codes.redeem(hall, hashed("thief"))
    assert codes.redeem(shed, hashed("mine")).name == "shed"
    again = codes.new("acme", "hall")
    with pytest.raises(NotFound):  # it is over, and a newer code none of its
        tokens.revoke("acme", numbers["hall"])
    assert codes.redeem(again, hashed("ours")).name == "hall"


def test_a_code_is_valid_for_a_day_at_most(database: Database) -> None:
    assert Codes(database).new("acme", "hall", seconds=86_400.0)
    with pytest.raises(InvalidInput, match="--valid"):
        Codes(database).new("acme", "hall", seconds=86_401.0)


def test_a_code_ends_a_token_made_after_it_only_if_it_was_to_replace_one(
    database: Database,
) -> None:
    codes, tokens = Codes(database), Credentials(database)
    code = codes.new("acme", "hall")
    token = tokens.new("acme", "hall")
    with pytest.raises(InvalidInput, match="--replace"):
        codes.redeem(code, hashed("mine"))
    assert (enters(database, token), enters(database, "mine")) == (True, False)
    with pytest.raises(NotFound, match="list"):
        codes.new("acme", "hell", replace=True)


def test_of_many_at_once_one_is_let_in(database: Database) -> None:
    code = Codes(database).new("acme", "hall")

    def redeem(n: int) -> bool:
        try:
            return bool(Codes(database).redeem(code, hashed(f"token {n}")))
        except Unauthenticated:
            return False

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(redeem, range(8)))
    assert Counter(won) == {True: 1, False: 7}
    assert [enters(database, f"token {n}") for n in range(8)] == won


def test_a_code_is_void_after_some_wrong_guesses_and_that_is_noted(database: Database) -> None:
    codes = Codes(database)
    code, other = codes.new("acme", "hall"), codes.new("acme", "shed")
    for _ in range(GUESSES):
        with pytest.raises(Unauthenticated):
            codes.redeem(wrong(code), hashed("thief"))
    with pytest.raises(Unauthenticated):
        codes.redeem(code, hashed("mine"))
    assert audit_log.recorded(database, most=1)[0].what == "code guessed at"
    for _ in range(GUESSES - 1):
        with pytest.raises(Unauthenticated):
            codes.redeem(wrong(other), hashed("thief"))
    assert codes.redeem(other, hashed("mine")).name == "shed"


def test_guesses_at_once_are_all_counted(database: Database) -> None:
    code = Codes(database).new("acme", "hall")

    def guess(_: int) -> None:
        with pytest.raises(Unauthenticated):
            Codes(database).redeem(wrong(code), hashed("thief"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(guess, range(GUESSES)))
    with pytest.raises(Unauthenticated):
        Codes(database).redeem(code, hashed("mine"))


def test_wrong_used_and_over_read_the_same(database: Database, clock: Clock) -> None:
    codes = Codes(database)
    used, over = codes.new("acme", "hall"), codes.new("acme", "shed")
    codes.redeem(used, hashed("mine"))
    said = set()
    clock.later += CODE_SECONDS
    for code in (used, over, wrong(over), "0000", "", "ZZZZ-ZZZZ-ZZZZ", "O" * 10_000):
        with pytest.raises(Unauthenticated) as caught:
            codes.redeem(code, hashed("other"))
        said.add(str(caught.value))
    assert len(said) == 1
    assert "tokens code" in said.pop()


def test_letters_that_look_alike_are_taken_for_each_other(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter(("0110", "00001111"))
    monkeypatch.setattr(module, "_drawn", lambda _: next(drawn))
    assert Codes(database).new("acme", "hall") == "0110-0000-1111"
    assert Codes(database).redeem("oil0 OOOO-ilLI", hashed("mine")).name == "hall"


def test_a_name_in_use_is_replaced_only_if_that_was_said(database: Database) -> None:
    old = Credentials(database).new("acme", "hall")
    codes = Codes(database)
    with pytest.raises(InvalidInput, match="--replace"):
        codes.new("acme", "hall")
    with pytest.raises(InvalidInput, match="no tenant"):
        codes.new("none", "hall")
    code = codes.new("acme", "hall", replace=True)
    assert enters(database, old)
    codes.redeem(code, hashed("mine"))
    assert (enters(database, old), enters(database, "mine")) == (False, True)


def test_a_disabled_tenants_code_waits_and_a_known_token_is_no_new_one(database: Database) -> None:
    codes, tenants = Codes(database), Tenants(database)
    known = Credentials(database).new("acme", "tv")
    code = codes.new("acme", "hall")
    tenants.disable("acme")
    with pytest.raises(PermissionDenied):
        codes.redeem(code, hashed("mine"))
    tenants.disable("acme", disabled=False)
    with pytest.raises(InvalidInput, match="make another"):
        codes.redeem(code, hashed(known))
    assert codes.redeem(code, hashlib.sha256(b"mine").digest()).name == "hall"


def test_codes_are_bounded_and_make_room(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_CODES", 3)
    codes = Codes(database)
    for n in range(3):
        codes.new("acme", f"dev-{n}")
    with pytest.raises(InvalidInput, match="too many codes"):
        codes.new("acme", "hall")
    clock.later += CODE_SECONDS
    assert codes.new("acme", "hall")
