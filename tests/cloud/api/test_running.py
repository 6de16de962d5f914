"""A server is opened where there is room for what it needs."""

from __future__ import annotations

import threading

import pytest

from sottovoce.cloud.api.listener import until_told
from sottovoce.core.errors import NotReady
from sottovoce.core.platform import memory


def test_its_heap_is_bound_before_anything_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[int] = []
    monkeypatch.setattr(memory, "bound_heap", lambda large, arenas: bound.append(large))

    def opened() -> None:
        assert bound, "a heap that grew first stays as it is"
        raise NotReady("opened")

    with pytest.raises(NotReady, match="opened"):
        until_told(opened, lambda server: None)  # type: ignore[type-var]


def test_without_room_for_its_threads_no_server_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def opened() -> None:
        raise AssertionError("it was opened")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    with pytest.raises(NotReady, match="only 0 more threads"):
        until_told(opened, lambda server: None)  # type: ignore[type-var]
