"""Memory that is given back comes back when it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sottovoce.edge.measure.latency import resident

SCRIPT = """
from sottovoce.core.system import memory
memory.bound_heap()
import numpy, onnxruntime
from sottovoce.edge.measure.latency import resident
before = resident()
given = memory.give_back()
after = resident()
rows = numpy.random.default_rng(0).standard_normal((300, 200))
assert numpy.allclose(rows @ numpy.linalg.pinv(rows) @ rows, rows)  # code is mapped again
print(before["files"], after["files"], given / 2**20)
"""


@pytest.mark.skipif(not resident(), reason="needs /proc, as Linux has it")
def test_pages_of_code_are_given_back_and_taken_again() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
    ).stdout
    before, after, given = map(float, printed.split())
    assert after < before / 2  # half of it at least was start-up code
    # Code that runs meanwhile is mapped again at once, a few MiB of it; how many is the kernel's
    # choice, which maps whole neighbourhoods of what is in its cache.
    assert before - after <= given + 1
    assert given == pytest.approx(before - after, rel=0.3)


def test_a_system_without_proc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from sottovoce.core.system import memory

    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert memory.give_back() == 0
