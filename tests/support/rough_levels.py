"""Bundles with levels from few draws, for tests that do not depend on levels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sottovoce.models import calibration


@contextmanager
def rough_levels() -> Iterator[None]:
    """Have builds within the block draw a tenth of the words, or less."""
    with pytest.MonkeyPatch.context() as patched:
        for name, few in (("_DRAWS", 2_000), ("_CLASS_DRAWS", 400), ("_TAIL_DRAWS", 300)):
            patched.setattr(calibration, name, few)
        patched.setattr(calibration, "_ATTACKS", {True: (500, 300), False: (300, 100)})
        patched.setattr(calibration, "_FITTED", 100)
        yield
