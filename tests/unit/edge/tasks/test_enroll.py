"""A code becomes a token on this device's disk, whatever is cut off in between."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.core.errors import Unauthenticated, Unavailable
from sottovoce.edge.cli.enroll import enroll
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.config import CloudConfig
from tests.support.leftovers import age, left_of
from tests.support.stub_cloud import StubCloud, stub_cloud


@pytest.fixture
def server() -> Iterator[StubCloud]:
    """A cloud that knows codes."""
    with stub_cloud() as server:
        yield server


def _known(server: StubCloud, file: Path) -> bool:
    """Return whether the cloud admits the token in the file."""
    config = CloudConfig(address=server.address, tenant="acme", token_file=file)
    with closing(Cloud(config)) as cloud:
        try:
            cloud.check_tenant()
        except Unauthenticated:
            return False
    return True


def test_a_code_becomes_a_private_token(server: StubCloud, tmp_path: Path) -> None:
    file = tmp_path / "new" / "token"
    with (
        closing(Cloud(CloudConfig(address=server.address))) as cloud,
        enroll(cloud, server.code("acme", "hall"), file) as done,
    ):
        assert not file.exists()  # before all else is done
    assert (done.tenant, done.name, done.scope, done.ends) == ("acme", "hall", "all", None)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [f.name for f in file.parent.iterdir()] == ["token"]
    assert len(file.read_text().strip()) >= 43  # 32 bytes
    assert _known(server, file)


def test_a_wrong_code_leaves_the_token_there_is(server: StubCloud, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of before\n")
    with (
        closing(Cloud(CloudConfig(address=server.address))) as cloud,
        pytest.raises(Unauthenticated),
        enroll(cloud, "0000-0000-0000", file),
    ):
        pass
    assert [f.name for f in tmp_path.iterdir()] == ["token"]
    assert file.read_text() == "of before\n"


def test_an_answer_that_is_lost_is_asked_for_again(server: StubCloud, tmp_path: Path) -> None:
    """Once by the call itself; and where it gives up, by the same command."""
    file, code = tmp_path / "token", server.code("acme", "hall")
    config = CloudConfig(address=server.address)
    server.lose_answers = 1000
    with closing(Cloud(config)) as cloud, pytest.raises(Unavailable), enroll(cloud, code, file):
        pass
    assert not file.exists()
    server.lose_answers = 1
    with (
        closing(Cloud(config)) as cloud,
        enroll(cloud, code.lower().replace("-", " "), file) as done,  # typed otherwise
    ):
        assert done.name == "hall"
    assert _known(server, file)


def test_a_token_that_one_cloud_may_have_accepted_is_shown_to_no_other(
    server: StubCloud, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    server.lose_answers = 1000
    with (
        closing(Cloud(CloudConfig(address=server.address))) as cloud,
        pytest.raises(Unavailable),
        enroll(cloud, server.code("acme", "hall"), file),
    ):
        pass
    server.lose_answers = 0
    with stub_cloud() as other:
        for chosen, tenant in ((other, "acme"), (server, "shop")):
            with (
                closing(Cloud(CloudConfig(address=chosen.address))) as cloud,
                enroll(cloud, chosen.code(tenant, "shed"), file),
            ):
                pass
            assert chosen.admits(tenant, file.read_text().strip())
            assert not server.admits("acme", file.read_text().strip())
        (waiting,) = set(tmp_path.iterdir()) - {file}
        os.utime(waiting, (0, 0))
        # What no code can be tried with any more does not lie about.
        with (
            closing(Cloud(CloudConfig(address=server.address))) as cloud,
            enroll(cloud, server.code("shop", "hut"), file),
        ):
            pass
        assert list(tmp_path.iterdir()) == [file]


def test_what_goes_wrong_before_the_end_leaves_the_token_there_is(
    server: StubCloud, tmp_path: Path
) -> None:
    file, code = tmp_path / "token", server.code("acme", "hall")
    file.write_text("of before\n")
    with closing(Cloud(CloudConfig(address=server.address))) as cloud:
        with pytest.raises(RuntimeError), enroll(cloud, code, file):
            raise RuntimeError
        assert file.read_text() == "of before\n"
        with enroll(cloud, code, file):
            pass
    assert _known(server, file)


def test_what_was_left_of_another_code_goes(server: StubCloud, tmp_path: Path) -> None:
    file = tmp_path / "token"
    left = left_of(tmp_path / "token.0123456789abcdef.new")  # its process was killed
    left.touch()
    age(left)
    with (
        closing(Cloud(CloudConfig(address=server.address))) as cloud,
        enroll(cloud, server.code("acme", "hall"), file),
    ):
        pass
    assert list(tmp_path.iterdir()) == [file]
