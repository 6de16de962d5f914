"""The core as a library: the lines that docs/mobile.md shows, as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

NAME = "Zelphira"
"""In no list, so no draw returns it."""


def shown() -> str:
    page = (ROOT / "docs" / "mobile.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return str(code)


def test_ten_lines_privatise_without_daemon(bundle_folder: Path) -> None:
    code = shown().replace('"build/bundle"', repr(str(bundle_folder))).replace("Anna", NAME)
    unneeded = {"click", "cryptography", "grpc", "onnxruntime", "sottovoce.edge"}
    code += f"import sys\nassert not {unneeded} & sys.modules.keys()\n"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    text, charge = done.stdout.rstrip().rsplit(" ", 1)
    assert NAME not in text
    assert len(text.split()) >= 3
    assert float(charge) > 0
    assert len([line for line in shown().splitlines() if line]) <= 10
