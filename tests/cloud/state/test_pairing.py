"""Who is given another's objects is told so, before anything is looked for among them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.cloud.state.opening import open_database
from sottovoce.cloud.state.pairing import check_objects
from sottovoce.core.errors import ConfigError
from tests.support.stores import Store


def test_a_database_knows_its_objects_wherever_it_is_opened(store: Store, tmp_path: Path) -> None:
    url, kept, moved = store.url(tmp_path), tmp_path / "kept", tmp_path / "moved"
    with closing(open_database(tmp_path, url, kept.as_uri())) as database:
        check_objects(database, bind=False)
        assert not kept.exists(), "who only looks binds nothing"
        for _ in range(2):
            check_objects(database)
    for wrong in ("", (tmp_path / "none").as_uri()):
        for bind in (False, True):
            with (
                closing(open_database(tmp_path, url, wrong)) as database,
                pytest.raises(ConfigError, match="not where") as caught,
            ):
                check_objects(database, bind=bind)
            assert "--objects" in caught.value.fix
    assert not (tmp_path / "none").exists()
    kept.rename(moved)
    with closing(open_database(tmp_path, url, moved.as_uri())) as database:
        check_objects(database)


def test_no_two_databases_have_one_store(store: Store, tmp_path: Path) -> None:
    kept = (tmp_path / "kept").as_uri()
    one, two = tmp_path / "one", tmp_path / "two"
    with closing(open_database(one, store.url(one), kept)) as database:
        check_objects(database)
    with closing(open_database(two, store.url(two), kept)) as database:
        for _ in range(2):
            with pytest.raises(ConfigError, match="another database's") as caught:
                check_objects(database)
        assert "objects.id" in caught.value.fix
        (tmp_path / "kept" / "objects.id").unlink()
        check_objects(database)
