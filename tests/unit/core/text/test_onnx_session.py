"""What a session holds besides what it runs, and that nobody is told of it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from sottovoce.core.text.onnx_models import session
from tests.support.paths import MODELS, ROOT

QUIET = """
import sys
from sottovoce.core.text.onnx_models import session
session(sys.argv[1])
"""


def test_the_file_is_not_kept_beside_the_network() -> None:
    model = next(MODELS.rglob("*.onnx")).read_bytes()
    held = sys.getrefcount(model)
    opened = session(model)
    assert opened
    assert sys.getrefcount(model) == held


def test_the_runtime_gathers_nothing_for_its_makers(tmp_path: Path) -> None:
    """What it would send it first writes into a database of its own below the user's folder."""
    model = next(MODELS.rglob("*.onnx"))
    unset = {"ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "XDG_DATA_HOME"}
    world = {name: value for name, value in os.environ.items() if name not in unset}
    home = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", QUIET, str(model)]
    subprocess.run(command, check=True, env=world | home)
    assert not list(tmp_path.iterdir())


def test_nothing_else_imports_the_runtime() -> None:
    """Beyond the tests; and whoever wants a part of it calls ``runtime()`` in the line before."""
    found = set()
    for folder in ("core", "edge", "cloud", "bench", "examples", "deploy", "clients", "models"):
        for path in (ROOT / folder).rglob("*.py"):
            for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                found |= {
                    f"{path.relative_to(ROOT)}:{line.lineno}"
                    for before, line in _pairs(function)
                    if _imports(line) and "runtime()" not in ast.unparse(before)
                }
    home = "core/sottovoce/core/text/onnx_models.py"
    assert {place.partition(":")[0] for place in found} == {home}


def _pairs(node: ast.AST) -> list[tuple[ast.AST, ast.stmt]]:
    """Each line of a block with the one before it that is no import itself."""
    body = getattr(node, "body", [])
    if not isinstance(body, list):
        return []
    before: ast.AST = ast.Pass()
    pairs = []
    for line in body:
        pairs.append((before, line))
        if not isinstance(line, ast.Import | ast.ImportFrom):
            before = line
    return pairs


def _imports(line: ast.stmt) -> bool:
    if isinstance(line, ast.Import):
        return any(name.name.split(".")[0] == "onnxruntime" for name in line.names)
    return isinstance(line, ast.ImportFrom) and (line.module or "").split(".")[0] == "onnxruntime"
