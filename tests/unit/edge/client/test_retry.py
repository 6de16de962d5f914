"""Safe calls are repeated a few times, and no call waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import grpc
import pytest

from sottovoce.core.errors import Unavailable
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.retry import backoff, is_retryable
from sottovoce.edge.config import CloudConfig
from sottovoce.v1 import generation_pb2, training_pb2
from sottovoce.v1 import generation_pb2_grpc as generation_grpc
from sottovoce.v1 import training_pb2_grpc as training_grpc
from tests.support.agent import TOKEN
from tests.support.leaving import TRIES, whose_reading_ends

LOST, BUSY = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED
GET_JOB = "/sottovoce.v1.TrainingService/GetJob"
PREDICT = "/sottovoce.v1.InferenceService/Predict"


@pytest.mark.parametrize(
    ("path", "failed", "again"),
    [
        (GET_JOB, LOST, True),
        (GET_JOB, BUSY, False),  # a quota, which does not pass
        (GET_JOB, grpc.StatusCode.DEADLINE_EXCEEDED, False),
        (PREDICT, LOST, True),
        (PREDICT, BUSY, True),
        ("/sottovoce.v1.GenerationService/Generate", LOST, True),
        ("/sottovoce.v1.TrainingService/UploadExamples", LOST, False),
        ("/sottovoce.v1.TrainingService/WatchJob", LOST, False),
        ("/sottovoce.v1.InferenceService/EncodeStream", LOST, False),
        ("/another.Service/GetJob", LOST, False),
    ],
)
def test_only_what_may_be_is_asked_again(path: str, failed: grpc.StatusCode, again: bool) -> None:
    assert is_retryable(path, failed) == again


def test_waits_double_and_end_with_the_fourth_attempt() -> None:
    for attempts, about in ((1, 0.2), (2, 0.4), (3, 0.8)):
        drawn = [backoff(attempts) for _ in range(200)]
        assert all(wait is not None and 0.8 * about <= wait <= 1.2 * about for wait in drawn)
        assert len(set(drawn)) > 100  # devices that lost one cloud do not come back all at once
    assert backoff(4) is None


def test_who_reads_a_stream_hears_that_the_cloud_took_leave(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)

    def watch(address: str) -> None:
        config = CloudConfig(address, "t", tmp_path / "token")
        with closing(Cloud(config)) as cloud, pytest.raises(Unavailable):
            list(cloud.watch_job("job"))

    assert whose_reading_ends(watch) == TRIES


class _Failing(training_grpc.TrainingServiceServicer, generation_grpc.GenerationServiceServicer):
    """Fails a given number of times."""

    def __init__(self, times: int, *, after: int = 0) -> None:
        self._left, self._after, self.asked = times, after, 0

    def GetJob(self, request, context):  # noqa: N802
        self.asked += 1
        self._fail(context)
        return training_pb2.GetJobResponse(job=training_pb2.Job(id=request.job_id))

    def Generate(self, request, context):  # noqa: N802
        self.asked += 1
        for number in range(1, self._after + 1):
            yield generation_pb2.GenerateResponse(delta_text="a", number=number)
        self._fail(context)
        yield generation_pb2.GenerateResponse(delta_text="b", number=self._after + 1)

    def _fail(self, context: grpc.ServicerContext) -> None:
        self._left -= 1
        if self._left >= 0:
            context.abort(LOST, "away")


@contextmanager
def _asking(folder: Path, failing: _Failing) -> Iterator[Cloud]:
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        training_grpc.add_TrainingServiceServicer_to_server(failing, server)
        generation_grpc.add_GenerationServiceServicer_to_server(failing, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        (folder / "token").write_text(TOKEN)
        config = CloudConfig(f"127.0.0.1:{port}", "t", folder / "token")
        with closing(Cloud(config)) as cloud:
            yield cloud
        server.stop(0).wait()


def test_a_call_is_made_four_times_before_it_has_failed(tmp_path: Path) -> None:
    failing = _Failing(3)
    with _asking(tmp_path, failing) as cloud:
        assert cloud.get_job("job").id == "job"
        assert failing.asked == 4
        failing = _Failing(9)
    with _asking(tmp_path, failing) as cloud:
        with pytest.raises(Unavailable):
            cloud.get_job("job")
        assert failing.asked == 4


def test_writing_begins_again_until_something_was_written(tmp_path: Path) -> None:
    request = generation_pb2.GenerateRequest(released_text="Once")
    failing = _Failing(2)
    with _asking(tmp_path, failing) as cloud:
        pieces = cloud.generate(request, lambda stop: None)
        assert [piece.delta_text for piece in pieces] == ["b"]
        assert failing.asked == 3
    failing = _Failing(1, after=2)
    with _asking(tmp_path, failing) as cloud:
        pieces = cloud.generate(request, lambda stop: None)
        assert [next(pieces).delta_text, next(pieces).delta_text] == ["a", "a"]
        with pytest.raises(Unavailable):
            next(pieces)
        assert failing.asked == 1
