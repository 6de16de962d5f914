"""Results on disk, a file each, named by all that it depends on: a killed run goes on.

Why it is here: dozens of runs of minutes each share nothing but a folder, and a file of half a
result would be taken for a whole one.
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
    """A file's name for what depends on ``facts``, each told by its `repr`."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


@contextmanager
def aside(file: Path) -> Iterator[Path]:
    """Where to write what takes the place of ``file``, whose folder is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with in_place_of(file) as path:
        yield path


def keep(file: Path, content: Any) -> None:
    """Writes JSON."""
    with aside(file) as path:
        path.write_text(json.dumps(content), encoding="utf-8")
