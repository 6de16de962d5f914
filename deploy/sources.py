"""The sources that are built: where they are, and when they were last changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import click

__all__ = ["SOURCES", "epoch"]

SOURCES: Final = Path(__file__).parents[1]


def epoch() -> int:
    """Return SOURCE_DATE_EPOCH, else the time of the last commit, in seconds since 1970.

    Raises:
        click.ClickException: the sources have no history.
    """
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    git = ["git", "-C", str(SOURCES), "log", "-1", "--format=%ct"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException("these sources have no history\nfix: set SOURCE_DATE_EPOCH")
    return int(done.stdout)
