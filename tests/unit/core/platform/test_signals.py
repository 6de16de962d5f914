"""A daemon ends at the first signal, whenever it comes and whichever thread it reaches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

SCRIPT = """
import sys, threading, time
from sottovoce.core.platform.threads import Ending
ending = Ending()
print("ready", flush=True)
if sys.argv[1] == "late":
    time.sleep(0.3)  # the signal comes before anyone waits
ending.wait()
print("ended", flush=True)
"""

IN_A_THREAD = """
import signal, threading, time
from sottovoce.core.platform.threads import Ending
ending = Ending()
def strike():
    time.sleep(0.1)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    time.sleep(60)
threading.Thread(target=strike, daemon=True).start()
ending.wait()
print("ended", flush=True)
"""

SET = """
import threading
from sottovoce.core.platform.threads import Ending
ending = Ending()
for _ in range(100_000):  # more than the pipe has room for
    ending.set()
threading.Thread(target=ending.set).start()
ending.wait()
print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("waits", ["soon", "late"])
def test_a_signal_ends_the_wait_before_or_after_it_begins(number: int, waits: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, waits], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, number)
        assert process.communicate(timeout=60)[0] == "ended\n"
        assert process.returncode == 0


@pytest.mark.parametrize("script", [IN_A_THREAD, SET])
def test_a_signal_to_another_thread_and_a_thread_itself_end_it_too(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "ended\n"
