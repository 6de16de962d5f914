"""What becomes of texts, asked as users ask it: by `sotto privatize --json`.

Why it is here: what is judged is what a user gets, with a state and a key of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["DRAW", "NOISE", "PASS", "Fate", "RefusedError", "released"]

PASS, NOISE, DRAW = "pass", "noise", "draw"

_ASK: Final = "from sottovoce.edge.cli import main; main()"


class RefusedError(Exception):
    """A text was not released; the message says why."""


class Fate(NamedTuple):
    """What became of ``text[start:end]``, a word as the device cut it.

    Attributes:
        start, end: code points.
        after: what was released in its place.
        treatment: `PASS`, `NOISE` or `DRAW`.
        tag: what the device took it for.
    """

    start: int
    end: int
    after: str
    treatment: str
    tag: str


def released(
    bundle: Path,
    texts: Sequence[str],
    level: str,
    policy: str,
    each: Callable[[], object] = lambda: None,
) -> list[tuple[Fate, ...]]:
    """What becomes of every word of each of ``texts``, each of one line.

    Args:
        bundle: folder of the bundle.
        texts: what to release, under a state and a key made for this call.
        level, policy: how; the mechanism is the default.
        each: called after every text.

    Raises:
        RefusedError: the agent refuses.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "bundle").mkdir()
        (place / "bundle" / "current").symlink_to(bundle.resolve())
        source = place / "texts"
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        # Not the owner's own settings.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SOTTO_")}
        kept.pop("XDG_CONFIG_HOME", None)
        own = {
            "SOTTO_AGENT_STATE": str(place / "state"),
            "SOTTO_BUNDLE_PATH": str(place / "bundle"),
        }
        asked = ["privatize", "--json", "--level", level, "--policy", policy, "--input", source]
        return [
            *_answers(
                [sys.executable, "-c", _ASK, *map(str, asked)],
                texts,
                each,
                kept | own | {"HOME": folder},
            )
        ]


def _answers(
    command: list[str],
    texts: Sequence[str],
    each: Callable[[], object],
    environment: dict[str, str],
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
                raise RefusedError((said.read().strip().splitlines() or ["it said nothing"])[-1])
            yield tuple(_fates(text, json.loads(line)))
            each()


def _fates(text: str, answer: dict[str, Any]) -> Iterator[Fate]:
    out: str = answer["text"]
    for word in answer["words"]:
        after = out[word["released_start"] : word["released_end"]]
        treatment = str(word["treatment"]).rpartition("_")[2].lower()
        yield Fate(word["start"], word["end"], after, treatment, word["tag"])
