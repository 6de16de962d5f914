"""A code becomes a token on this device's disk, whatever is cut off in between."""

from __future__ import annotations

import dataclasses
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.core.errors import Unauthenticated, Unavailable
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.config import CloudConfig
from sottovoce.edge.tasks.enroll import enroll
from tests.support.fake_cloud import FakeCloud, fake_cloud


@pytest.fixture
def server() -> Iterator[FakeCloud]:
    """A cloud that knows codes."""
    with fake_cloud() as server:
        yield server


def _known(server: FakeCloud, file: Path) -> bool:
    """Whether who has the token in the file is let in."""
    config = CloudConfig(address=server.address, tenant="acme", token_file=file)
    with closing(Cloud(config)) as cloud:
        try:
            cloud.check_tenant()
        except Unauthenticated:
            return False
    return True


def test_a_code_becomes_a_private_token(server: FakeCloud, tmp_path: Path) -> None:
    file = tmp_path / "new" / "token"
    with closing(Cloud(CloudConfig(address=server.address))) as cloud:
        done = enroll(cloud, server.code("acme", "hall"), file)
    assert (done.tenant, done.name, done.scope, done.ends) == ("acme", "hall", "all", None)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [f.name for f in file.parent.iterdir()] == ["token"]
    assert len(file.read_text().strip()) >= 43  # 32 bytes
    assert _known(server, file)


def test_a_wrong_code_leaves_the_token_there_is(server: FakeCloud, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of before\n")
    with (
        closing(Cloud(CloudConfig(address=server.address))) as cloud,
        pytest.raises(Unauthenticated),
    ):
        enroll(cloud, "0000-0000-0000", file)
    assert [f.name for f in tmp_path.iterdir()] == ["token"]
    assert file.read_text() == "of before\n"


def test_an_answer_that_is_lost_is_asked_for_again(server: FakeCloud, tmp_path: Path) -> None:
    """Once by the call itself; and where it gives up, by the same command."""
    file, code = tmp_path / "token", server.code("acme", "hall")
    config = CloudConfig(address=server.address)
    server.lose_answers = 1000
    with closing(Cloud(config)) as cloud, pytest.raises(Unavailable):
        enroll(cloud, code, file)
    assert not file.exists()
    server.lose_answers = 1
    with closing(Cloud(dataclasses.replace(config))) as cloud:
        assert enroll(cloud, code, file).name == "hall"
    assert _known(server, file)
