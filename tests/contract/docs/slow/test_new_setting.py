"""A new training setting is written in three places: the wire, the table, the trainer's options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

_PLACES = {
    "protos/sottovoce/v1/training.proto": (
        "  bool continues = 18;\n",
        "  bool continues = 18;\n  uint32 patience = 19;\n",
    ),
    "core/sottovoce/core/rpc/training_settings.py": (
        "FIELDS: Final = (\n",
        'FIELDS: Final = (\n    Field("patience", "Epochs without a gain that end it.", 50),\n',
    ),
    "cloud/sottovoce/cloud/job.py": (
        "    continues: bool = False\n",
        "    continues: bool = False\n    patience: int = 0\n",
    ),
}

_SCRIPT = """
from click.testing import CliRunner
from sottovoce.cloud.api.models_service import _options
from sottovoce.cloud.api.training_service import ALIKE
from sottovoce.core.errors import InvalidInput
from sottovoce.core.rpc import training_settings
from sottovoce.edge.cli import main
from sottovoce.edge.cli.customize import _training_of
from sottovoce.v1 import edge_agent_pb2 as agent

shown = CliRunner().invoke(main, ["customize", "--help"]).output
assert "--patience" in shown and "0<=x<=50" in shown, shown
given = {field.name: 0 for field in training_settings.FIELDS} | {"method": "lora", "patience": 7}
settings = agent.CustomizationSettings(training=_training_of(given))
wanted = training_settings.of(settings, 0)
assert _options(wanted).patience == 7
assert "patience" in ALIKE
wanted.patience = 51
try:
    training_settings.check(wanted)
except InvalidInput as error:
    assert error.subject == "training.patience"
else:
    raise AssertionError("out of range, and taken")
"""


def test_a_new_setting_is_written_in_three_places(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    for part in ("protos", "core", "edge", "cloud"):
        shutil.copytree(ROOT / part / "sottovoce", tmp_path / part / "sottovoce", ignore=ignored)
    for name, (before, after) in _PLACES.items():
        file = tmp_path / name
        text = file.read_text(encoding="utf-8")
        assert text.count(before) == 1, name
        file.write_text(text.replace(before, after), encoding="utf-8")
    wire = [f"sottovoce/v1/{name}.proto" for name in ("training", "edge_agent")]
    made = [sys.executable, "-m", "grpc_tools.protoc", "-I", ".", "--python_out=.", *wire]
    subprocess.run(made, cwd=tmp_path / "protos", check=True)
    path = os.pathsep.join(str(tmp_path / part) for part in ("protos", "core", "edge", "cloud"))
    run = [sys.executable, "-c", _SCRIPT]
    done = subprocess.run(
        run, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
