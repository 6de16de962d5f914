"""A query without an answer goes out again as it was, whatever became of its connection."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from sottovoce.core.errors import InvalidInput, Unavailable
from sottovoce.edge.client import retry
from sottovoce.edge.client.retry import ReconnectingStream
from sottovoce.v1 import inference_pb2 as inference


class Cloud:
    """Streams that break after given numbers of answers, then one that holds."""

    def __init__(self, *answers: int, error: Exception | None = None) -> None:
        self.lives = list(answers)
        self.error = error or Unavailable("lost")
        self.streams: list[list[bytes]] = []

    def __call__(
        self, requests: Iterator[inference.EncodeRequest]
    ) -> Generator[inference.EncodeResponse, None, None]:
        arrived: list[bytes] = []
        self.streams.append(arrived)
        life = self.lives.pop(0) if self.lives else None
        for request in requests:
            arrived.append(request.SerializeToString(deterministic=True))
            if life == len(arrived) - 1:
                raise self.error
            yield inference.EncodeResponse(request_id=request.request_id)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST", 0.0)


def _queries(count: int) -> list[inference.EncodeRequest]:
    return [
        inference.EncodeRequest(request_id=f"q{n}", tokens=1, vectors=bytes([n]) * 16)
        for n in range(count)
    ]


def test_lost_queries_are_sent_again_byte_for_byte() -> None:
    cloud = Cloud(2, 0, 3)
    link = ReconnectingStream(cloud)
    queries = _queries(9)
    for query in queries:
        link.send(query)
    assert [link.receive().request_id for _ in queries] == [f"q{n}" for n in range(9)]
    link.close()
    written = [query.SerializeToString(deterministic=True) for query in queries]
    assert cloud.streams[0] == written[:3]
    assert cloud.streams[1] == written[2:3]  # broke on what the one before had not answered
    assert cloud.streams[2] == written[2:6]
    assert cloud.streams[3] == written[5:]


def test_queries_sent_between_answers_keep_their_place() -> None:
    cloud = Cloud(1, 1, 1)
    link = ReconnectingStream(cloud)
    for query in _queries(6):
        link.send(query)
        assert link.receive().request_id == query.request_id
    link.close()


def test_a_cloud_that_stays_away_is_given_up() -> None:
    cloud = Cloud(*[0] * 20)
    link = ReconnectingStream(cloud)
    link.send(_queries(1)[0])
    with pytest.raises(Unavailable, match="lost"):
        link.receive()
    assert len(cloud.streams) == 4
    assert len({arrived[0] for arrived in cloud.streams}) == 1


def test_a_refusal_is_not_repeated() -> None:
    cloud = Cloud(1, error=InvalidInput("bad vectors"))
    link = ReconnectingStream(cloud)
    for query in _queries(3):
        link.send(query)
    link.receive()
    with pytest.raises(InvalidInput, match="bad vectors"):
        link.receive()
    assert len(cloud.streams) == 1


def test_an_answer_to_something_else_again_and_again_is_an_error() -> None:
    def confused(
        requests: Iterator[inference.EncodeRequest],
    ) -> Generator[inference.EncodeResponse, None, None]:
        for _ in requests:
            yield inference.EncodeResponse(request_id="other")

    link = ReconnectingStream(confused)
    link.send(_queries(1)[0])
    with pytest.raises(Unavailable, match="out of order"):
        link.receive()


def test_an_answer_that_comes_twice_is_given_once() -> None:
    cloud = Cloud()

    def stuttering(
        requests: Iterator[inference.EncodeRequest],
    ) -> Generator[inference.EncodeResponse, None, None]:
        for answer in cloud(requests):
            yield answer
            if len(cloud.streams) == 1:
                yield answer

    link = ReconnectingStream(stuttering)
    for query in _queries(4):
        link.send(query)
    assert [link.receive().request_id for _ in range(4)] == [f"q{n}" for n in range(4)]
    link.close()
    assert len(cloud.streams) == 2
