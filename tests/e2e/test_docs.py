"""Pages that are generated are current."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT


def test_the_page_of_commands_is_what_the_programs_say(tmp_path: Path) -> None:
    page = ROOT / "docs" / "cli.md"
    code = (
        "import runpy, sys; made = runpy.run_path('docs/generate.py');"
        "sys.stdout.buffer.write(made['page']().encode())"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    assert out.stdout.decode() == page.read_text(encoding="utf-8"), "run docs/generate.py"
