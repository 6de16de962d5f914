"""Release texts with any version of this repository, through its command line.

`sotto privatize --json` is the one interface that older versions share, so the same code judges all
versions. Each version gets a fresh state and key.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["DRAW", "NOISE", "PASS", "Fate", "Version", "VersionError"]

PASS, NOISE, DRAW = "pass", "noise", "draw"

_ASK: Final = "from sottovoce.edge.cli import main; main()"
_NAMES: Final = """
import json
from sottovoce.core.privacy.setting import LEVELS
try:
    from sottovoce.core.privacy.policies import POLICIES
except ImportError:  # an older version
    from sottovoce.core.privacy.setting import POLICIES
print(json.dumps([LEVELS, [n for n, p in POLICIES.items() if not getattr(p, "context", False)]]))
"""


class VersionError(Exception):
    """A version failed; the message says why, and what to do."""


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


@dataclass(frozen=True)
class Version:
    """A checkout, and the bundle it releases with.

    Attributes:
        checkout: its root; None for the code that is running.
        bundle: a folder that this version can read.
    """

    checkout: Path | None
    bundle: Path

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the version's levels and policies."""
        levels, policies = json.loads(self._run(["-c", _NAMES]))
        return tuple(levels), tuple(policies)

    def release(
        self,
        texts: Sequence[str],
        level: str,
        policy: str,
        each: Callable[[], object] = lambda: None,
    ) -> list[tuple[Fate, ...]]:
        """Return the result for every word of each of ``texts``, which are single lines.

        Args:
            texts: the texts to release, under a state and key made for this call.
            level, policy: names in that version; the mechanism is its default.
            each: called after every text.

        Raises:
            VersionError: the version is missing or failed.
        """
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "bundle").mkdir()
            (place / "bundle" / "current").symlink_to(self.bundle.resolve())
            source = place / "texts"
            source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
            asked = ["privatize", "--json", "--level", level, "--policy", policy]
            command = [sys.executable, "-c", _ASK, *asked, "--input", str(source)]
            return [*self._answers(command, self._environment(place), texts, each)]

    def _answers(
        self,
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
                    raise self._refused(said.read())
                yield tuple(_fates(text, json.loads(line)))
                each()

    def _environment(self, place: Path) -> dict[str, str]:
        """Return the environment without the owner's settings, with folders for one call."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SOTTO_")}
        own = {
            "HOME": str(place),
            "SOTTO_AGENT_STATE": str(place / "state"),
            "SOTTO_BUNDLE_PATH": str(place / "bundle"),
        }
        if self.checkout is not None:
            parts = (str(self.checkout / part) for part in ("protos", "core", "edge", "cloud"))
            own["PYTHONPATH"] = os.pathsep.join(parts)
        return {key: value for key, value in kept.items() if key != "XDG_CONFIG_HOME"} | own

    def _run(self, arguments: list[str]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, *arguments],
                env=self._environment(Path(folder)),
                capture_output=True,
                encoding="utf-8",
                check=False,
            )
        if done.returncode:
            raise self._refused(done.stderr)
        return done.stdout

    def _refused(self, said: str) -> VersionError:
        last = (said.strip().splitlines() or ["it said nothing"])[-1]
        where = self.checkout or "this version"
        return VersionError(
            f"{where} with the bundle {self.bundle}: {last} (a checkout needs a bundle that it"
            " built itself: `make bundle` in it)"
        )


def _fates(text: str, answer: dict[str, Any]) -> Iterator[Fate]:
    released: str = answer["text"]
    for word in answer["words"]:
        after = released[word["released_start"] : word["released_end"]]
        yield Fate(word["start"], word["end"], after, _treatment(word), word["tag"])


def _treatment(word: dict[str, Any]) -> str:
    """Return the treatment; older versions tell only protected words and identifiers."""
    if "treatment" in word:
        return str(word["treatment"]).rpartition("_")[2].lower()
    if not word["protected"]:
        return PASS
    return DRAW if word["tag"] == "IDENTIFIER" else NOISE
