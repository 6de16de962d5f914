"""How often a cloud that is away is looked for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from sottovoce.edge.client import connection
from sottovoce.edge.config import CloudConfig

_ENOUGH = 12
"""Attempts: at gRPC's own pace, each wait 1.6 times the last, the twelfth comes after minutes."""


class HangsUp:
    """A port where whoever comes is let in and sent away, as before a cloud that is starting."""

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
