"""Public data sets that do not come with the repository: a newcomer does without, CI does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.paths import DATA


def shared_data(*names: str) -> Path:
    """The data folder, if it holds ``names``; else the calling test skips, and fails in CI."""
    missing = [name for name in names if not (DATA / name).exists()]
    if missing:
        said = f"public data that this test is about is not in ../shared/data: {', '.join(missing)}"
        if os.environ.get("CI"):
            pytest.fail(said, pytrace=False)
        pytest.skip(said)
    return DATA
