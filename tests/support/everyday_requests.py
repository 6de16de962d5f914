"""Ten requests as people write them, with invented names, numbers and addresses."""

from __future__ import annotations

from typing import Final

from tests.support.paths import ROOT


def _read() -> dict[str, str]:
    text = (ROOT / "tests/support/everyday_requests.txt").read_text("utf-8")
    parts = (part.partition("\n") for part in text.split("=== ")[1:])
    return {name: request for name, _, request in parts}


REQUESTS: Final = _read()
"""The requests, by what they are about."""
