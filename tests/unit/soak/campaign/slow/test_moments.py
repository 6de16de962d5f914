"""The named moments exist, and the chosen process dies there."""

from __future__ import annotations

import importlib
import inspect
import math
import os
import signal
import subprocess
import sys
from functools import reduce
from pathlib import Path

import pytest

from soak.campaign.errands import ALL
from soak.campaign.moments import MOMENTS, Death, Moment
from soak.campaign.tally import Tally

WRITES = """
import sys
from pathlib import Path
from sottovoce.core.platform.files import atomic
for number in range(3):
    with atomic(Path(sys.argv[1]) / str(number)) as out:
        out.write(b"whole")
"""
HALF = next(moment for moment in MOMENTS if moment.name == "file written aside, not synced")


@pytest.mark.parametrize("moment", MOMENTS, ids=[moment.name for moment in MOMENTS])
def test_what_a_moment_names_is_there(moment: Moment) -> None:
    module, _, path = moment.place.partition(":")
    *owners, name = path.split(".")
    owner = reduce(getattr, owners, importlib.import_module(module))
    named = vars(owner)[name]
    named = getattr(named, "__func__", named)
    assert inspect.isfunction(named), "a class method, a method or a function"
    assert named.__module__ == module, "the module that others import it from"
    assert not inspect.isgeneratorfunction(inspect.unwrap(named)), "whose call does nothing yet"
    assert moment.when in ("before", "after")
    assert moment.process in ("device", "command", "cloud", "worker")
    assert moment.errand in ALL
    assert moment.calls > 0


def test_one_round_over_the_table_is_of_all_moments() -> None:
    assert len({moment.name for moment in MOMENTS}) == len(MOMENTS) >= 20
    assert {moment.process for moment in MOMENTS} == {"device", "command", "cloud", "worker"}
    assert math.gcd(7, len(MOMENTS)) == 1


def _writes(death: Death, process: str, folder: Path) -> tuple[int, list[str]]:
    folder.mkdir()
    environ = os.environ | death.environment(process)
    ended = subprocess.run([sys.executable, "-c", WRITES, str(folder)], env=environ, check=False)
    return ended.returncode, sorted(file.name for file in folder.glob("[0-9]"))


def test_it_dies_at_that_call_and_nobody_else_does(tmp_path: Path) -> None:
    death = Death(tmp_path / "death")
    assert _writes(death, "command", tmp_path / "unarmed") == (0, ["0", "1", "2"])
    death.arm(HALF, 2)
    assert _writes(death, "device", tmp_path / "another") == (0, ["0", "1", "2"])
    assert not death.reached
    assert _writes(death, "command", tmp_path / "killed") == (-signal.SIGKILL, ["0"])
    assert death.reached
    assert len([*(tmp_path / "killed").glob(".1.*")]) == 1, "the file aside"
    assert _writes(death, "command", tmp_path / "once") == (0, ["0", "1", "2"])
    death.arm(HALF, 9)
    assert not death.reached, "one that was asked for later"
    death.disarm()
    assert _writes(death, "command", tmp_path / "no more") == (0, ["0", "1", "2"])


def test_a_moment_that_is_never_reached_is_a_fault() -> None:
    tally = Tally("kills", "again {}")
    tally.came_by({"a": 2, "b": 1}, {"a": 1})
    assert tally.faults["unexplained"] == 1
    assert "'b' was never reached" in tally.findings[0]
    assert tally.figures == {"named moments tried": 2, "named moments reached": 1}
