"""How often a cloud that is away is looked for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from sottovoce.core.bundle.signature import show_key
from sottovoce.core.errors import BundleMismatch, DataLoss
from sottovoce.edge.client import connection
from sottovoce.edge.client.connection import KnownClouds
from sottovoce.edge.config import BundleConfig, CloudConfig

_ENOUGH = 12
"""Attempts: at gRPC's own pace, each wait 1.6 times the last, the twelfth comes after minutes."""


class HangsUp:
    """A port that accepts connections and closes them, as before a starting cloud."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.came = 0
        self.enough = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):  # closed
            while True:
                self._listening.accept()[0].close()
                self.came += 1
                if self.came == _ENOUGH:
                    self.enough.set()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # which ends a wait for the next to come
        self._listening.close()


@pytest.fixture
def cloud() -> Iterator[HangsUp]:
    hangs_up = HangsUp()
    yield hangs_up
    hangs_up.close()


def test_waits_between_attempts_do_not_grow_beyond_their_bound(
    cloud: HangsUp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connection, "_LONGEST_WAIT", 100)
    config = CloudConfig(address=f"127.0.0.1:{cloud.port}", token_file=tmp_path / "token")
    with connection.connect(config) as channel:
        waiting = grpc.channel_ready_future(channel)  # which has it try again and again
        assert cloud.enough.wait(60)
        waiting.cancel()


ONE, OTHER = b"0" * 32, b"1" * 32


def test_the_first_key_is_taken_and_no_other(tmp_path: Path) -> None:
    known = KnownClouds(BundleConfig(tmp_path))
    known.check("cloud.example.org", OTHER)  # not noted by asking
    known.check("cloud.example.org", ONE)
    known.note("cloud.example.org", ONE)
    for each in (known, KnownClouds(BundleConfig(tmp_path))):
        each.check("cloud.example.org:8471", ONE)
        with pytest.raises(BundleMismatch, match="not as before") as caught:
            each.check("cloud.example.org", OTHER)
        assert f"sotto pull --key {show_key(OTHER)}" in caught.value.fix
        each.check("cloud.example.org:9000", OTHER)  # another cloud
    known.note("cloud.example.org", OTHER)
    known.check("cloud.example.org", OTHER)


def test_any_noted_key_vouches_for_a_bundle_that_is_there(tmp_path: Path) -> None:
    known = KnownClouds(BundleConfig(tmp_path))
    with pytest.raises(BundleMismatch, match="never noted"):
        known.check_any(ONE)
    known.note("[::1]:80", ONE)
    known.note("cloud.example.org", OTHER)
    known.check_any(ONE)
    known.check_any(OTHER)


def test_a_configured_key_alone_counts(tmp_path: Path) -> None:
    KnownClouds(BundleConfig(tmp_path)).note("cloud.example.org", ONE)
    known = KnownClouds(BundleConfig(tmp_path, key=show_key(OTHER)))
    known.check("cloud.example.org", OTHER)
    known.check_any(OTHER)
    for refused in (lambda: known.check("new", ONE), lambda: known.check_any(ONE)):
        with pytest.raises(BundleMismatch, match="not the configured key"):
            refused()


@pytest.mark.parametrize("text", ["cloud:1", "cloud:1 key", "a b c", "cloud:1 \xff"])
def test_a_damaged_file_opens_to_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "known_clouds").write_text(text, encoding="latin-1")
    known = KnownClouds(BundleConfig(tmp_path))
    for call in (known.check, known.note):
        with pytest.raises(DataLoss, match="known_clouds is damaged"):
            call("cloud", ONE)
