"""Release texts as users release them: by `sotto privatize --json`, under a fresh state and key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["DRAW", "NOISE", "PASS", "Fate", "ReleaseError", "release"]

PASS, NOISE, DRAW = "pass", "noise", "draw"

_ASK: Final = "from sottovoce.edge.cli import main; main()"


class ReleaseError(Exception):
    """The command failed; the message says why, and what to do."""


class Fate(NamedTuple):
    """Result for ``text[start:end]``, a word as the device cut it.

    Attributes:
        start, end: code points.
        after: the released word.
        treatment: `PASS`, `NOISE` or `DRAW`.
        tag: the kind that the device gave the word.
    """

    start: int
    end: int
    after: str
    treatment: str
    tag: str


def release(
    bundle: Path,
    texts: Sequence[str],
    level: str,
    policy: str,
    each: Callable[[], object] = lambda: None,
) -> list[tuple[Fate, ...]]:
    """Return the result for every word of each of ``texts``, which are single lines.

    Args:
        bundle: its folder.
        texts: the texts to release, under a state and key made for this call.
        level, policy: see `Setting`; the mechanism is the default.
        each: called after every text.

    Raises:
        ReleaseError: the command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "bundle").mkdir()
        (place / "bundle" / "current").symlink_to(bundle.resolve())
        source = place / "texts"
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        asked = ["privatize", "--json", "--level", level, "--policy", policy]
        command = [sys.executable, "-c", _ASK, *asked, "--input", str(source)]
        return [*_answers(command, _environment(place), texts, each)]


def _answers(
    command: list[str],
    environment: dict[str, str],
    texts: Iterable[str],
    each: Callable[[], object],
) -> Iterator[tuple[Fate, ...]]:
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as said,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, env=environment, encoding="utf-8"
        ) as process,
    ):
        assert process.stdout is not None
        for text in texts:
            line = process.stdout.readline()
            if not line:
                process.wait()
                said.seek(0)
                last = (said.read().strip().splitlines() or ["it said nothing"])[-1]
                raise ReleaseError(f"sotto privatize: {last}")
            yield tuple(_fates(text, json.loads(line)))
            each()


def _environment(place: Path) -> dict[str, str]:
    """Return the environment without the owner's settings, with folders for one call."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SOTTO_")}
    kept.pop("XDG_CONFIG_HOME", None)
    return kept | {
        "HOME": str(place),
        "SOTTO_AGENT_STATE": str(place / "state"),
        "SOTTO_BUNDLE_PATH": str(place / "bundle"),
    }


def _fates(text: str, answer: dict[str, Any]) -> Iterator[Fate]:
    released: str = answer["text"]
    for word in answer["words"]:
        after = released[word["released_start"] : word["released_end"]]
        treatment = str(word["treatment"]).rpartition("_")[2].lower()
        yield Fate(word["start"], word["end"], after, treatment, word["tag"])
