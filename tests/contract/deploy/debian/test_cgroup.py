"""Groups of processes of a check's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.debian.machine import group_here, own_group

GROUP = group_here()


@pytest.mark.skipif(
    GROUP is None or not os.access(GROUP, os.W_OK), reason="no groups can be made: run it as root"
)
def test_nothing_of_a_group_is_left() -> None:
    assert GROUP is not None
    with own_group(GROUP) as own:
        inner = own / "system.slice/one.service"
        inner.mkdir(parents=True)
        wait = [sys.executable, "-c", "input()"]
        with subprocess.Popen(wait, stdin=subprocess.PIPE) as process:
            (inner / "cgroup.procs").write_text(f"{process.pid}")
            assert f"/{own.name}/" in Path(f"/proc/{process.pid}/cgroup").read_text()
            process.kill()
    assert not own.exists()
