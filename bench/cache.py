"""Results on disk, one file each, named by a hash of all their inputs, so a killed run continues.

Files appear only when they are complete, because a half-written result would be read as a result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sottovoce.core.platform.files import in_place_of

__all__ = ["aside", "keep", "name_of"]


def name_of(*facts: object) -> str:
    """Return a file name from the `repr` of all ``facts``."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


@contextmanager
def aside(file: Path) -> Iterator[Path]:
    """Make the folder of ``file`` and return the path of a temporary file that will replace it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with in_place_of(file) as path:
        yield path


def keep(file: Path, content: Any) -> None:
    """Write JSON."""
    with aside(file) as path:
        path.write_text(json.dumps(content), encoding="utf-8")
