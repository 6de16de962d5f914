"""Keeps the measured levels of the default bundle, so that its build need not measure them again.

Measuring takes two thirds of a build. Levels belong to the words, the classes and the space that
they were measured on, and to their targets. A bundle that differs in one of these is measured.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from sottovoce.core.bundle.levels import EmbedLevel, Level
from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.files import atomic
from sottovoce.core.platform.schema import Malformed, Sha256, decode, parse_object
from sottovoce.core.privacy.denoiser import TOLERANCE

FILE: Final = "levels.json"
_FORMAT: Final = "levels.v1"

_NEAR: Final = 0.01
"""The share by which the size of a class may differ.

Networks of whole numbers of one byte round differently on other processors, so a few words change
their class. The share of guessed words hardly depends on these.
"""

Calibrated = dict[str, tuple[dict[str, Level], tuple[Level, ...]]]
"""By mechanism, the named levels and the points of the curve; see `calibration.calibrate`."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What levels are measured on.

    Attributes:
        digest: of words, sources and targets, see `digest`.
        sizes: the number of words in each class.
        sketch: of the words' vectors, see `space_sketch`.
    """

    digest: Sha256
    sizes: dict[str, int]
    sketch: tuple[float, ...]

    def suits(self, other: Basis) -> bool:
        """Return whether levels that were measured on this hold on the other as well."""
        alike = self.digest == other.digest and self.sizes.keys() == other.sizes.keys()
        return (
            alike
            and all(abs(n - other.sizes[name]) <= _NEAR * n for name, n in self.sizes.items())
            and len(self.sketch) == len(other.sketch)
            and all(abs(a - b) <= TOLERANCE for a, b in zip(self.sketch, other.sketch, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Levels:
    """The measured levels of one bundle; the annotations are the schema of `FILE`.

    Attributes:
        measured_on: what they were measured on.
        by_mechanism: of texts.
        embed: of embeddings; empty without a denoiser.
    """

    measured_on: Basis
    by_mechanism: Calibrated
    embed: dict[str, EmbedLevel]


def digest(words: Sequence[str], sources: Iterable[Path], *more: str) -> str:
    """Return the SHA-256 of what levels depend on, but for the classes and the space.

    Args:
        words: the listed words.
        sources: folders whose files give the words their counts and classes.
        more: names of the backbone and the tagger, and the targets of the levels.
    """
    found = hashlib.sha256("\n".join((*more, *words)).encode())
    for folder in sources:
        for path in sorted(path for path in folder.iterdir() if path.suffix != ".md"):
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def find(folder: Path, measured_on: Basis) -> Levels | None:
    """Return the levels that ``folder`` keeps, if they hold on ``measured_on``.

    Raises:
        InvalidInput: the file is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        form, raw = parse_object(path.read_bytes())
        if form != _FORMAT:
            raise Malformed(f"format is {form[:60]!r}, not {_FORMAT!r}")
        found = decode(Levels, raw)
    except Malformed as error:
        raise InvalidInput(
            f"{path} is damaged: {error}",
            fix="restore the file, or measure the levels with build-bundle --measure-levels",
            subject="models",
        ) from None
    return found if found.measured_on.suits(measured_on) else None


def keep(folder: Path, levels: Levels) -> None:
    """Write ``levels`` into ``folder``, in place of those that it kept."""
    text = json.dumps({"format": _FORMAT, **asdict(levels)}, indent=1, sort_keys=True)
    folder.mkdir(exist_ok=True)
    with atomic(folder / FILE) as file:
        file.write(f"{text}\n".encode())
