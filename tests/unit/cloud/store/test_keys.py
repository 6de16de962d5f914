"""The master key: made once, the same for all, and missed at the start rather than by a job."""

from __future__ import annotations

import secrets
import stat
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.cloud.store import open_database
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.store.keys import MASTER_KEY, Cipher
from sottovoce.core.errors import ConfigError, DataLoss, Unavailable
from tests.support.leftovers import age, left_of
from tests.support.stores import Store


def make(database: Database, job: str) -> Cipher:
    with database.write() as transaction:
        return database.keys.make(transaction, job)


def of(database: Database, job: str) -> Cipher:
    with database.read() as transaction:
        return database.keys.of(transaction, job)


def test_who_has_the_master_key_opens_what_others_sealed(store: Store, tmp_path: Path) -> None:
    url, first = store.url(tmp_path), tmp_path
    with closing(open_database(first, url)) as one, closing(open_database(first, url)) as two:
        one.keys.check(one)  # nothing is sealed yet
        sealed = make(one, "j").seal(["text"], "here")
        two.keys.check(two)
        assert of(two, "j").unseal(sealed, "here") == ["text"]
        assert make(two, "j").unseal(sealed, "here") == ["text"], "a job has one key"
        changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
        for wrong, place in ((changed, "here"), (sealed, "there"), (b"", "here")):
            with pytest.raises(DataLoss):
                of(two, "j").unseal(wrong, place)
        with pytest.raises(DataLoss):
            make(two, "k").unseal(sealed, "here")
    assert stat.S_IMODE((first / MASTER_KEY).stat().st_mode) == 0o600


def test_another_or_no_master_key_is_said_at_the_start(store: Store, tmp_path: Path) -> None:
    url = store.url(tmp_path)
    with closing(open_database(tmp_path, url)) as database:
        make(database, "j")
    key = tmp_path / MASTER_KEY
    (tmp_path / "short").write_bytes(b"x")
    (tmp_path / "other").write_bytes(bytes(32))
    for file in ("none", "short", "other"):
        if file != "none":
            (tmp_path / file).chmod(0o600)
        with closing(open_database(tmp_path, url, "", tmp_path / file)) as database:
            with pytest.raises(ConfigError, match="master key") as caught:
                database.keys.check(database)
            assert "--key-file" in caught.value.fix
            with pytest.raises(Unavailable):  # a job waits, and does not fail by it
                of(database, "j")
            with pytest.raises(Unavailable):
                make(database, "k")
    key.chmod(0o644)
    with (
        closing(open_database(tmp_path, url)) as database,
        pytest.raises(ConfigError, match="other users can read"),
    ):
        database.keys.check(database)
    assert key.read_bytes() != bytes(32), "it was not made anew"


def test_a_transaction_that_fails_leaves_no_half_made_master_key(
    store: Store, tmp_path: Path
) -> None:
    with closing(open_database(tmp_path, store.url(tmp_path))) as database:

        def cut() -> None:
            with database.write() as transaction:
                database.keys.make(transaction, "j")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            cut()
        with pytest.raises(DataLoss):
            of(database, "j")
        make(database, "j")
        of(database, "j")


def test_a_master_key_that_cannot_be_written_is_the_providers_to_mend(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "nowhere" / "key"
    with (
        closing(open_database(tmp_path, store.url(tmp_path), "", file)) as database,
        pytest.raises(Unavailable),
    ):
        make(database, "j")
    assert f"cannot write {file}: no such folder" in caplog.text


def test_a_master_key_that_another_wrote_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / MASTER_KEY
    draw = secrets.token_bytes

    def slowly(size: int) -> bytes:
        if not key.exists():
            key.write_bytes(bytes(32))
            key.chmod(0o600)
        return draw(size)

    with closing(open_database(tmp_path)) as database:
        monkeypatch.setattr(secrets, "token_bytes", slowly)
        make(database, "j")
        of(database, "j")
    assert key.read_bytes() == bytes(32)


@pytest.mark.server
@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_who_wakes_after_the_key_of_a_job_was_made_does_not_take_its_place(
    store: Store, tmp_path: Path
) -> None:
    url = store.url(tmp_path)
    with closing(open_database(tmp_path, url)) as one, closing(open_database(tmp_path, url)) as two:
        make(one, "first")

        def asleep() -> bytes:
            with one.write() as transaction:
                sealed = one.keys.make(transaction, "j").seal(["text"], "here")
                raise _Cut(sealed)

        with pytest.raises(_Cut) as caught:
            asleep()
        made = make(two, "j")
        with pytest.raises(DataLoss):
            of(one, "none")
        assert made.unseal(caught.value.args[0], "here") == ["text"], "what it left is gone on with"
        one.objects.put_secret("j", b"late")
        assert of(one, "j").unseal(made.seal(["text"], "here"), "here") == ["text"]


class _Cut(Exception):
    """The end of a transaction."""


def test_what_was_left_of_the_key_goes_at_the_next_start(store: Store, tmp_path: Path) -> None:
    """A process killed after the rename leaves a second name."""
    file = tmp_path / "elsewhere" / MASTER_KEY
    file.parent.mkdir()
    with closing(open_database(tmp_path, store.url(tmp_path), "", file)) as database:
        make(database, "j")
        left_of(file).hardlink_to(file)
        age(file)
        database.keys.check(database)
        assert [each.name for each in file.parent.iterdir()] == [MASTER_KEY]
