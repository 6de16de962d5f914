"""What is fetched goes with its use, or after whoever died with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sottovoce.cloud.state.fetched import clear, own_folder
from tests.support.processes import environment

HOLD = """
import sys
from pathlib import Path
from sottovoce.cloud.state.fetched import own_folder
with own_folder(Path(sys.argv[1])) as folder:
    (folder / "weights").write_text("w")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_it_goes_with_the_block(tmp_path: Path) -> None:
    with own_folder(tmp_path / "fetched") as folder:
        (folder / "weights").write_text("w")
        clear(tmp_path / "fetched")
        assert (folder / "weights").exists(), "somebody uses it"
    assert [*(tmp_path / "fetched").iterdir()] == []


def test_what_a_dead_process_left_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    clear(tmp_path)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().decode().strip())
        clear(tmp_path)
        assert (folder / "weights").exists()
        process.kill()
        process.wait()
    assert (folder / "weights").exists()
    clear(tmp_path)
    assert not folder.exists()
