"""Two machines agree within the tolerances, or the comparer fails.

`make check-arm64` makes the inputs.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

COMPARE = ROOT / "edge" / "arm64" / "compare.py"

Outcome = dict[str, Any]


def outcome() -> Outcome:
    words = [f"word{place}" for place in range(300)]
    return {
        "machine": "x86_64",
        "bundle": "0123",
        "seconds": {},
        "tagger": {"tags": ["NOUN"] * 300, "confidence": [0.9] * 300},
        "vectors": {"ids": [1, -1], "words": [[0.6, 0.8]] * 2, "noise": [[0.1, 0.2]]},
        "released": list(words),
        "released exactly": list(words),
        "search": {"graph": list(range(300)), "exact": list(range(300))},
        "denoiser": [[1.0, 0.0], [0.0, 1.0]],
        "at home": {"labels": ["water"] * 300, "states": [[1.0, 0.0]]},
        "daemon": {
            "tags": ["NOUN"] * 300,
            "protected": [True] * 300,
            "facts": {
                "health": "SERVING",
                "the bundle's id": True,
                "same bytes for the same text": True,
                "white space and marks kept": True,
                "some words replaced": True,
                "exit status": 0,
            },
        },
    }


def compared(folder: Path, change: Callable[[Outcome], object]) -> tuple[int, Outcome]:
    """Exit status and JSON of comparing an outcome with a changed copy."""
    ours = outcome()
    theirs = copy.deepcopy(ours) | {"machine": "aarch64"}
    change(theirs)
    for name, side in (("ours", ours), ("theirs", theirs)):
        (folder / name).write_text(json.dumps(side), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(COMPARE), str(folder / "ours"), str(folder / "theirs")],
        capture_output=True,
        text=True,
        check=False,
    )
    said: Outcome = json.loads(done.stdout.splitlines()[-1])
    return done.returncode, said


def within_tolerance(theirs: Outcome) -> None:
    theirs["released"][:3] = ["other"] * 3
    theirs["tagger"]["confidence"][0] += 0.009
    theirs["vectors"]["noise"][0][0] += 9e-6
    theirs["denoiser"][0] = [1.0, 0.04]
    theirs["at home"] = {"labels": ["salt"] * 3 + ["water"] * 297, "states": [[1.0, 0.09]]}


def test_small_differences_pass(tmp_path: Path) -> None:
    status, said = compared(tmp_path, within_tolerance)
    assert status == 0
    assert said["passed"]
    assert all(check["holds"] for check in said["checks"])


CHANGES: dict[str, Callable[[Outcome], object]] = {
    "released words": lambda o: o["released"].__setitem__(slice(4), ["other"] * 4),
    "released words, exact search": lambda o: o["released exactly"].pop(),
    "probabilities of tags": lambda o: o["tagger"]["confidence"].__setitem__(0, 0.88),
    "vectors of words": lambda o: o["vectors"]["words"][1].__setitem__(0, 0.60002),
    "seeded noise": lambda o: o["vectors"].__setitem__("noise", []),
    "words looked up": lambda o: o["vectors"]["ids"].__setitem__(0, 2),
    "same bundle": lambda o: o.__setitem__("bundle", "4567"),
    "embeddings, least cosine": lambda o: o.__setitem__("denoiser", [[1.0, 0.0], [0.06, 1.0]]),
    "labels at home": lambda o: o["at home"].__setitem__("labels", ["salt"] * 4 + ["water"] * 296),
    "states under an adapter, least cosine": lambda o: o["at home"].update(states=[[1.0, 0.12]]),
    "wrong facts, aarch64 daemon": lambda o: o["daemon"]["facts"].__setitem__("exit status", 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_larger_difference_fails_and_is_named(name: str, tmp_path: Path) -> None:
    status, said = compared(tmp_path, CHANGES[name])
    assert status == 1
    assert not said["passed"]
    assert [check["name"] for check in said["checks"] if not check["holds"]] == [name]


def test_a_denoiser_on_one_machine_only_fails(tmp_path: Path) -> None:
    status, said = compared(tmp_path, lambda o: o.__setitem__("denoiser", None))
    assert status == 1
    assert not said["passed"]


def test_an_encoder_on_one_machine_only_fails(tmp_path: Path) -> None:
    status, said = compared(tmp_path, lambda o: o.__setitem__("at home", None))
    assert status == 1
    assert not said["passed"]
