"""Where the data sets are, which do not come with the repository.

Why it is here: a measurement that needs them says so at once, not after ten minutes of work.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

__all__ = ["DATA", "require"]

DATA: Final = Path(__file__).parents[2] / "shared" / "data"
"""Beside a development checkout."""


def require(parser: ArgumentParser, folder: Path, *paths: str) -> None:
    """Ends the program with a message if ``folder`` lacks any of ``paths``."""
    missing = [path for path in paths if not (folder / path).exists()]
    if missing:
        parser.error(f"not in {folder}: {', '.join(missing)}; name the data folder with --data")
