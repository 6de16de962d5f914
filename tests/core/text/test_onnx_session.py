"""What a session holds besides what it runs."""

from __future__ import annotations

import sys

from sottovoce.core.text.onnx_session import session
from tests.support.paths import MODELS


def test_the_file_is_not_kept_beside_the_network() -> None:
    model = next(MODELS.rglob("*.onnx")).read_bytes()
    held = sys.getrefcount(model)
    opened = session(model)
    assert opened.get_inputs()
    assert sys.getrefcount(model) == held
