"""A server is opened where there is room for what it needs."""

from __future__ import annotations

import threading

import pytest

from sottovoce.cloud.server.running import until_told
from sottovoce.core.errors import NotReady


def test_without_room_for_its_threads_no_server_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def opened() -> None:
        raise AssertionError("it was opened")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    with pytest.raises(NotReady, match="only 0 more threads"):
        until_told(opened, lambda server: None)  # type: ignore[type-var]
