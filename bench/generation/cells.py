"""The cells of `bench.generation`'s second table: policies, levels and reconstruction.

One setting governs the release, the cloud's training and the restoration. The most informative
cells come first, for runs without time for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from bench.generation.cloud import Cloud, Written
from bench.generation.conversation import SETTINGS, Device
from bench.generation.webnlg import Entry
from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.core.privacy import token_embedding

__all__ = ["CELLS", "CLEAR", "Cell", "Run", "Texts"]

CLEAR: Final = "clear"
_PLAIN: Final = 40
"""Plain tokens of an example (RAPT v2, section V-A3)."""


@dataclass(frozen=True, order=True)
class Cell:
    """One training; ``policy`` is `CLEAR` or one of `SETTINGS`."""

    policy: str
    reconstruction: bool = False

    def __str__(self) -> str:
        return f"{self.policy}, reconstruction" if self.reconstruction else self.policy


_FIRST: Final = {
    False: (CLEAR, "names", "content balanced", "PCT2T balanced", "T2T balanced"),
    True: ("PCT2T balanced", "content balanced", "T2T balanced", "names"),
}
"""Policies by whether plain tokens are reconstructed, which where hardly anything gets noise can
change little."""
CELLS: Final = tuple(
    Cell(policy, reconstruction)
    for reconstruction, first in _FIRST.items()
    for policy in (*first, *(name for name in SETTINGS if name not in first))
)
"""All cells, the most informative first."""


@dataclass(frozen=True)
class Texts:
    """Each judged entry's answer, as written and as restored; ``run`` describes the training."""

    written: tuple[str, ...]
    restored: tuple[str, ...]
    run: Written


@dataclass(frozen=True)
class Run:
    """Everything a cell shares with the others.

    Attributes:
        device, cloud: the two sides.
        known: entries to learn from.
        asked: entries that are judged.
        epochs: of training.
    """

    device: Device
    cloud: Cloud
    known: Sequence[Entry]
    asked: Sequence[Entry]
    epochs: int

    def texts(self, cell: Cell, *, make: bool = True) -> Texts | None:
        """Return the results of a cell; None if it was not run and ``make`` is false."""
        options = TrainingOptions(
            task="generation",
            reconstruction=cell.reconstruction,
            plain_tokens=_PLAIN if cell.reconstruction else 0,
            epochs=self.epochs,
        )
        setting = SETTINGS.get(cell.policy)
        if setting is None:
            examples = [Example(each.facts, output=each.texts[0]) for each in self.known]
            prompts = [entry.facts for entry in self.asked]
            run = self.cloud.written(examples, prompts, options, make=make)
            return Texts(run.answers, run.answers, run) if run else None
        releases = [self.device.release(entry.facts, setting) for entry in self.asked]
        prompts = [release.text for release in releases]
        run = self.cloud.written(self._examples(cell), prompts, options, make=make)
        if run is None:
            return None
        back = (
            self.device.restoration(release).restore(answer).text
            for release, answer in zip(releases, run.answers, strict=True)
        )
        return Texts(run.answers, tuple(back), run)

    def _examples(self, cell: Cell) -> list[Example]:
        """Return the examples as the device sends them.

        Facts and text are one document, so words in both are released alike.
        """
        device, setting = self.device, SETTINGS[cell.policy]
        random = np.random.default_rng(0)
        words = token_embedding.vocabulary(device.bundle, setting.policy)
        plain = token_embedding.sequences(words, _PLAIN if cell.reconstruction else 0, 0, random)
        made = []
        for entry, ids in zip(self.known, islice(plain, len(self.known)), strict=True):
            release = device.release(f"{entry.facts}\n{entry.texts[0]}", setting)
            text, output = release.cut(len(entry.facts))
            sent = device.privatizer.release_plain_tokens(ids, setting, random) if ids else ()
            made.append(Example(text, "", tuple(sent), tuple(ids), output))
        return made
