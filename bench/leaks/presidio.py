"""Microsoft Presidio for comparison: its findings count as replaced, all other words as kept.

Presidio is a common tool for removing names from text. It runs under the Python given by
`--presidio`, with the named spaCy pipeline, or with its pattern recognisers alone.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.leaks.released import DRAW, PASS, Fate, ReleaseError
from sottovoce.core.text.words import split

__all__ = ["Presidio"]

_WORKER: Final = Path(__file__).with_name("presidio_worker.py")


@dataclass(frozen=True)
class Presidio:
    """Presidio's analyzer.

    Attributes:
        python: of the environment that has it.
        pipeline: a spaCy pipeline installed there; "" for the pattern recognisers alone.
        clitics: how words are cut, for the comparison.
    """

    python: Path
    pipeline: str
    clitics: tuple[str, ...]

    def release(
        self, texts: Sequence[str], each: Callable[[], object] = lambda: None
    ) -> list[tuple[Fate, ...]]:
        """What becomes of every word; one of which any part is found counts as replaced.

        Raises:
            ReleaseError: it does not run there.
        """
        command = [str(self.python), str(_WORKER), *([self.pipeline] if self.pipeline else [])]
        done = subprocess.run(
            command, input=json.dumps(texts), capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise ReleaseError(
                f"Presidio does not run: {last} (pip install presidio-analyzer into an environment"
                " of its own, and name its python)"
            )
        found = []
        for text, line in zip(texts, done.stdout.splitlines(), strict=True):
            found.append(self._fates(text, json.loads(line)))
            each()
        return found

    def _fates(self, text: str, spans: Sequence[tuple[int, int]]) -> tuple[Fate, ...]:
        fates = []
        for word in split(text, self.clitics):
            gone = any(start < word.end and word.start < end for start, end in spans)
            after, treatment = ("", DRAW) if gone else (word.text, PASS)
            fates.append(Fate(word.start, word.end, after, treatment, ""))
        return tuple(fates)
