"""What one process with SQLite takes, beside what it took."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from bench.scale.before import compared, processor

_BURN = "import time; end = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"


def _burning(seconds: float) -> str:
    return f"{sys.executable} -c '{_BURN.format(seconds=seconds)}'"


@pytest.fixture
def session() -> Iterator[int]:
    """Of a shell whose child has taken a third of a second and ended, and which goes on."""
    command = f"{_burning(0.3)}; echo done; exec sleep 600"
    with subprocess.Popen(
        ["/bin/sh", "-c", command], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        yield process.pid
        process.kill()


def test_processor_time_is_that_of_a_session_ended_children_among_it(session: int) -> None:
    subprocess.run(["/bin/sh", "-c", _burning(2.0)], check=True)  # somebody else's
    assert (
        0.3 <= processor(session) + 0.05 < 2
    )  # in ticks; what Python takes to start is in it, too


def test_a_ratio_is_that_of_neighbours_and_the_median_of_all() -> None:
    slow = [{"before": (10.0 * n, 30.0 * n), "now": (11.0 * n, 20.0 * n)} for n in (1, 2, 4)]
    found = compared([*slow, {"before": (1.0, 1.0), "now": (9.0, 9.0)}])
    assert found["ratio"] == pytest.approx(1.1)
    assert found["interval"][0] == pytest.approx(1.1)
    assert found["processor_ms"] == {"before": 15.0, "now": pytest.approx(16.5)}
    assert found["clock_ms"]["before"] == 45.0
