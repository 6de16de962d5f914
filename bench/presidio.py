"""Microsoft Presidio, for comparison, under the Python of an environment that has it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Presidio", "PresidioError"]

_WORKER: Final = Path(__file__).with_name("presidio_worker.py")


class PresidioError(Exception):
    """Presidio did not run; the message says why, and what to do."""


@dataclass(frozen=True)
class Presidio:
    """Presidio's analyzer.

    Attributes:
        python: of the environment that has it.
        pipeline: a spaCy pipeline installed there; "" for the pattern recognisers alone.
    """

    python: Path
    pipeline: str

    def find(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return the places that it would replace in each text, as code points.

        Raises:
            PresidioError: it does not run there.
        """
        command = [str(self.python), str(_WORKER), *([self.pipeline] if self.pipeline else [])]
        done = subprocess.run(
            command, input=json.dumps(texts), capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise PresidioError(
                f"Presidio does not run: {last} (pip install presidio-analyzer into an environment"
                " of its own, and name its python)"
            )
        return [
            [(start, end) for start, end in json.loads(line)] for line in done.stdout.splitlines()
        ]
