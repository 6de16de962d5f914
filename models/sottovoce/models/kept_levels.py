"""Keeps the measured levels of the default bundle, so that its build need not measure them again.

Measuring takes two thirds of a build. Levels belong to the words, the classes and the backbone that
they were measured on. A bundle that differs in one of these has its levels measured.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from sottovoce.core.bundle.levels import EmbedLevel, Level
from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.files import atomic
from sottovoce.core.platform.schema import Malformed, Sha256, decode, parse_object

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
class Levels:
    """The measured levels of one bundle; the annotations are the schema of `FILE`.

    Attributes:
        measured_on: the digest of the bundle's words and sources, see `digest`.
        sizes: the number of words in each class.
        by_mechanism: of texts.
        embed: of embeddings; empty without a denoiser.
    """

    measured_on: Sha256
    sizes: dict[str, int]
    by_mechanism: Calibrated
    embed: dict[str, EmbedLevel]


def digest(words: Sequence[str], sources: Iterable[Path], *more: str) -> str:
    """Return the SHA-256 of what levels depend on.

    Args:
        words: the listed words.
        sources: folders whose files give the words their counts and classes.
        more: names of the backbone, its space and the tagger.
    """
    found = hashlib.sha256("\n".join((*more, *words)).encode())
    for folder in sources:
        for path in sorted(path for path in folder.iterdir() if path.suffix != ".md"):
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def find(folder: Path, measured_on: str, sizes: Mapping[str, int]) -> Levels | None:
    """Return the levels that ``folder`` keeps, if they belong to the same words and classes.

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
    alike = found.sizes.keys() == sizes.keys() and all(
        abs(size - sizes[name]) <= _NEAR * size for name, size in found.sizes.items()
    )
    return found if alike and found.measured_on == measured_on else None


def keep(folder: Path, levels: Levels) -> None:
    """Write ``levels`` into ``folder``, in place of those that it kept."""
    text = json.dumps({"format": _FORMAT, **asdict(levels)}, indent=1, sort_keys=True)
    folder.mkdir(exist_ok=True)
    with atomic(folder / FILE) as file:
        file.write(f"{text}\n".encode())
