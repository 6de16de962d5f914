"""Where things are, counted from the repository's root here and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bench.data import DATA as DATA

ROOT: Final = Path(__file__).parents[2]
MODELS: Final = ROOT / "models"
"""What ships."""
HELPDESK: Final = ROOT / "examples" / "helpdesk"
SENTENCES: Final = ROOT / "tests" / "fixtures" / "sentences.txt"
"""Sentences of our own with their words' tags, for those who have no ``DATA``."""
BUNDLE: Final = Path(os.environ.get("SOTTO_TEST_BUNDLE", ROOT / "build" / "bundle"))
"""The real bundle, built by ``make bundle`` unless the environment names another."""
