"""A tenant's adapter name stands for one folder of files, and changes hands in one step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.cloud.store import open_database
from sottovoce.cloud.store.adapters import AdapterFiles, digest, install, locate, uninstall
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants
from sottovoce.core.errors import DataLoss, InvalidInput, NotFound
from tests.support.stores import Store


@pytest.fixture
def database(tmp_path: Path, store: Store) -> Iterator[Database]:
    """Two tenants."""
    database = store.open(tmp_path / "state")
    for name in ("acme", "other"):
        Tenants(database).enroll(name)
    yield database
    database.close()


def put(database: Database, job: str, sha256: str = "ab", name: str = "topics") -> None:
    with database.write() as transaction:
        install(transaction, "acme", name, job=job, folder=f"jobs/{job}/adapter", sha256=sha256)


def test_a_name_is_swapped_and_taken_away_only_from_its_own_job(database: Database) -> None:
    with pytest.raises(NotFound, match="no such adapter"):
        locate(database, "acme", "topics")
    put(database, "j1")
    first = locate(database, "acme", "topics")
    assert first.folder == database.state / "jobs" / "j1" / "adapter"
    for tenant, name in (("other", "topics"), ("acme", "else")):
        with pytest.raises(NotFound):
            locate(database, tenant, name)
    put(database, "j2", "cd")
    second = locate(database, "acme", "topics")
    assert (second.folder.parent.name, second.sha256) == ("j2", "cd")
    assert len({first, second, locate(database, "acme", "topics")}) == 2, "fit for a key"
    for job, left in (("j1", second), ("j2", None)):
        with database.write() as transaction:
            uninstall(transaction, job)
        if left:
            assert locate(database, "acme", "topics") == left
    with pytest.raises(NotFound):
        locate(database, "acme", "topics")


def test_a_name_with_a_nul_is_no_fault_of_the_clouds(database: Database) -> None:
    with pytest.raises((NotFound, InvalidInput)) as caught:
        locate(database, "acme", "topics\0secret")
    assert "secret" not in str(caught.value)
    put(database, "j1")
    assert locate(database, "acme", "topics")


def test_a_swap_that_is_cut_short_leaves_the_old_one(database: Database) -> None:
    put(database, "j1")
    before = locate(database, "acme", "topics")

    def cut() -> None:
        with database.write() as transaction:
            install(transaction, "acme", "topics", job="j2", folder="jobs/j2/adapter", sha256="cd")
            assert locate(database, "acme", "topics") == before, "others see the old one meanwhile"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut()
    assert locate(database, "acme", "topics") == before


def test_the_state_folder_may_be_moved(database: Database, store: Store, tmp_path: Path) -> None:
    put(database, "j1")
    database.close()
    (tmp_path / "state").rename(tmp_path / "moved")
    moved = open_database(tmp_path / "moved", store.url(tmp_path / "state"))
    assert locate(moved, "acme", "topics").folder == tmp_path / "moved" / "jobs" / "j1" / "adapter"
    moved.close()


def test_a_digest_knows_every_byte_and_every_name(tmp_path: Path) -> None:
    def made(**files: str) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        return digest(folder)

    assert made(a="1", b="2") == made(b="2", a="1")
    others = [made(a="1"), made(a="1", b="3"), made(a="2", b="1"), made(a="1", c="2"), made()]
    assert len({made(a="1", b="2"), *others}) == 6
    assert len(made()) == 64


@pytest.mark.parametrize("name", ["adapter.json", "head.safetensors"])
def test_files_of_a_folder_are_opened_as_they_were_kept_or_not_at_all(
    tmp_path: Path, name: str
) -> None:
    for file in ("adapter.json", "head.safetensors"):
        (tmp_path / file).write_bytes(b"labels: yes, no")
    files = AdapterFiles.of(tmp_path)
    with files.opened() as folder:
        assert folder == tmp_path
    (tmp_path / name).write_bytes(b"labels: yes, oh")
    with pytest.raises(DataLoss, match="damaged"), files.opened():
        pass
    (tmp_path / name).unlink()
    with pytest.raises(DataLoss, match="damaged"), files.opened():
        pass
